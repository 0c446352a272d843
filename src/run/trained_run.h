#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/data/catalogue.h"
#include "kolo/run/run.h"
#include "run/rank_job.h"
#include "run/run_folder.h"

namespace c10 {
struct Device;
}

// The one reader of trained runs, for those who use their networks: `kolo eval` and `kolo predict`.
namespace kolo {

class Network;

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

// Network, data and objective of a trained run.
struct TrainedModel {
  RunConfig config;  // the run's, with the settings that replace its own
  Datasets datasets;
  std::shared_ptr<Network> network;
  std::shared_ptr<Objective> objective;
  std::filesystem::path checkpoint;  // of rank 0, which looks for it and reads it, as are
  std::int64_t step = 0, epoch = 0;  // when it was saved
};

// A command that uses a trained network.
struct TrainedJob {
  std::string_view command;            // that messages begin with
  std::filesystem::path path;          // a run's folder, or one of its checkpoints
  std::string checkpoint;              // of a run: see find_checkpoint()
  std::vector<std::string> overrides;  // of the run's settings
  bool reads_data = true;              // as in validation; false: samples of its shapes will do
  // Checks all else that the user has given; returns what else the ranks must have alike.
  std::function<std::vector<RankFact>(const TrainedModel&, bool is_root)> prepare =
      [](const TrainedModel&, bool) { return std::vector<RankFact>(); };
  std::function<void(TrainedModel&, const Communicator&)> work = {};
};

// Does a rank's part of the job, and returns the same statuses as run(), or throws where the rank
// is alone.
[[nodiscard]] int run_trained(const TrainedJob& job, const RunParts& parts,
                              const RunOptions& options);

// InputError for what run_trained() would refuse: for who starts the ranks. Returns the run's
// configuration with the overrides.
RunConfig check_trained(const TrainedJob& job, const RunParts& parts);

// Rank 0 reads the checkpoint, all have its parameters and buffers afterwards, on the device, which
// is returned. Collective.
[[nodiscard]] c10::Device load_trained_network(const Communicator& communicator,
                                               TrainedModel& model);

}  // namespace kolo
