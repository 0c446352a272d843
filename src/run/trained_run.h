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

// Reader of trained runs, for `kolo eval` and `kolo predict`.
namespace kolo {

class Network;

struct TrainedRun {
  RunFolder run;
  std::optional<std::filesystem::path> checkpoint;  // where the user has named one by its path
};

// Text "a sweep, whose runs are in sweep/trials: 001-lr-0.1, ..." of the folder of a sweep or a
// scaling study; empty: it is neither's.
[[nodiscard]] std::string describe_study_in(const std::filesystem::path& folder);

// Finds the run or checkpoint at `path`. InputError, which begins with the command: it is neither.
[[nodiscard]] TrainedRun find_trained_run(std::string_view command,
                                          const std::filesystem::path& path);

// Folder of the checkpoint that `choice` names: "newest", a step, or "best", which is the newest in
// runs without validation. InputError when there is none.
[[nodiscard]] std::filesystem::path find_checkpoint(const TrainedRun& trained,
                                                    const std::string& choice);

// Network, data and objective of a trained run.
struct TrainedModel {
  RunConfig config;   // with the overrides
  Datasets datasets;  // class names that the data doesn't give are those of run.json
  std::shared_ptr<Network> network;
  std::shared_ptr<Objective> objective;
  // On rank 0, which alone reads it: the checkpoint, and when it was saved.
  std::filesystem::path checkpoint;
  std::int64_t step = 0, epoch = 0;
};

// A command that uses a trained network.
struct TrainedJob {
  std::string_view command;            // first word of messages
  std::filesystem::path path;          // a run's folder, or one of its checkpoints
  std::string checkpoint;              // of a run: see find_checkpoint()
  std::vector<std::string> overrides;  // of the run's settings
  bool reads_data = true;  // false: the shapes of samples will do, which the run has recorded
  // Checks all else that the user has given; returns more facts that the ranks must have alike.
  std::function<std::vector<RankFact>(const TrainedModel&, bool is_root)> prepare =
      [](const TrainedModel&, bool) { return std::vector<RankFact>(); };
  std::function<void(TrainedModel&, const Communicator&)> work = {};
};

// Does a rank's part of the job, with the statuses and errors of run().
[[nodiscard]] int run_trained(const TrainedJob& job, const RunComponents& components,
                              const RunOptions& options);

// Throws the InputErrors of run_trained() before ranks are started. Returns the run's configuration
// with the overrides.
RunConfig check_trained(const TrainedJob& job, const RunComponents& components);

// Gives all ranks the parameters and buffers of the checkpoint, which rank 0 reads, on the device
// that is returned. Collective.
[[nodiscard]] c10::Device load_trained_network(const Communicator& communicator,
                                               TrainedModel& model);

}  // namespace kolo
