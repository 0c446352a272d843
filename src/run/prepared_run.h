#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/config/run_config.h"
#include "kolo/data/catalogue.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/run/run.h"
#include "run/rank_job.h"
#include "run/resume.h"
#include "run/run_folder.h"

namespace torch::nn {
class Module;
}

// Parts of a run, made before it begins.
namespace kolo {

class Network;
struct LoadedCheckpoint;
struct Objective;

// Everything of a run that users can get wrong, made and checked before anything is written or any
// rank is started.
struct PreparedRun {
  RunConfig config;
  RunFolder folder;
  ModelCatalogue models;
  Datasets datasets;
  std::shared_ptr<Network> network;
  std::shared_ptr<Objective> objective;
  std::unique_ptr<FlatOptimizer> optimizer;
  std::int64_t steps_of_epoch = 0;
  // On rank 0, which alone looks at the checkpoint to resume from.
  std::optional<ResumePoint> resumed = std::nullopt;
  ResumeChanges changes = {};
  std::string finished = {};  // message on a run that has nothing left to do

  [[nodiscard]] bool starts_anew() const { return !goes_on_there(); }
  // Tells whether the run resumes from a checkpoint of its own folder.
  [[nodiscard]] bool goes_on_there() const { return resumed && resumed->is_in(folder); }
};

// The program's own parts, or else what the configuration names.
[[nodiscard]] Datasets make_datasets(const RunConfig& config, const RunComponents& components,
                                     const DataReading& reading);
[[nodiscard]] Objective make_objective(const RunConfig& config, const RunComponents& components);
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_optimizer(const RunConfig& config,
                                                            const RunComponents& components);
// Parts that other programs don't know: "network two_towers", "data", "loss".
[[nodiscard]] std::vector<std::string> own_components(const RunComponents& components);

// InputError: data, model and optimizer don't fit, there are more ranks than samples, the output
// folder can't be written, there is nothing to resume, or model or order of samples have changed.
// `is_root`: rank 0 or the launcher, which alone looks at folder, checkpoint and files of data.
[[nodiscard]] PreparedRun prepare_run(const RunConfig& config, const RunComponents& components,
                                      const RunOptions& options, int ranks, bool is_root = true);

// The same for a run that is about to begin. InputError also where it would move or overwrite files
// that kolo did not make, or move what it reads.
[[nodiscard]] PreparedRun prepare_training(const RunConfig& config, const RunComponents& components,
                                           const RunOptions& options, int ranks, bool is_root);

// Tells whether a path leads into the folder of an earlier run, which a new run moves aside.
[[nodiscard]] bool would_be_moved(const std::filesystem::path& path, const RunFolder& folder);

// InputError: model.sync_batch_norm is on, but a batch norm of the network can't be replaced.
void require_batch_norms_to_synchronize(const ModelConfig& config, torch::nn::Module& network);

// Reads the whole checkpoint that the run resumes from: another one than its headers made
// prepare_run choose, if that turns out to be damaged, which it adds to `warnings`.
[[nodiscard]] std::shared_ptr<LoadedCheckpoint> load_resumed(PreparedRun& run,
                                                             const RunOptions& options, int ranks,
                                                             std::vector<std::string>& warnings);

// Facts that the ranks of a run must have alike: the program, all settings except the places of
// data, which may differ between nodes, and the data's number of samples, shapes and classes.
[[nodiscard]] std::vector<RankFact> facts_of(const RunConfig& config, const Datasets& datasets);

}  // namespace kolo
