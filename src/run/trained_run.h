#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/nn/network.h"
#include "run/run_folder.h"

// What is left of a run for those who use its network: `kolo eval` and `kolo predict`.
namespace kolo {

// A run, and one of its checkpoints where the path was that of one.
struct TrainedRun {
  RunFolder run;
  std::optional<std::filesystem::path> checkpoint;
};

// InputError, which begins with the command, when the path is neither.
[[nodiscard]] TrainedRun find_trained_run(std::string_view command,
                                          const std::filesystem::path& path);

// The folder of its checkpoint that `choice` names: "newest", a step, or "best", for which the
// newest stands in runs without validation. InputError when there is none.
[[nodiscard]] std::filesystem::path find_checkpoint(const TrainedRun& trained,
                                                    const std::string& choice);

// Its configuration, with settings in place of its own.
[[nodiscard]] RunConfig load_trained_config(const TrainedRun& trained,
                                            const std::vector<std::string>& overrides,
                                            const ModelCatalogue& models);

// When a checkpoint was saved.
struct TrainedPoint {
  std::int64_t step = 0, epoch = 0;
};

// Rank 0 reads the checkpoint, all have its parameters and buffers afterwards, on the device, which
// is returned. `point` is rank 0's. Collective.
[[nodiscard]] torch::Device load_trained_network(const Communicator& communicator,
                                                 const std::filesystem::path& checkpoint,
                                                 const DeviceConfig& device, Network& network,
                                                 TrainedPoint& point);

}  // namespace kolo
