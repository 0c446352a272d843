#pragma once

#include <functional>
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

// What a run is made of, before it begins.
namespace kolo {

class Network;
struct LoadedCheckpoint;
struct Objective;

// Everything a run needs that can be wrong on the user's side, made and checked before anything is
// written or any rank is started.
struct PreparedRun {
  RunConfig config;
  RunFolder folder;
  ModelCatalogue models;
  Datasets datasets;
  std::shared_ptr<Network> network;
  std::shared_ptr<Objective> objective;
  std::unique_ptr<FlatOptimizer> optimizer;
  std::int64_t steps_of_epoch = 0;
  // Of rank 0, which looks for all at what there is to go on with.
  std::optional<ResumePoint> resumed = std::nullopt;
  ResumeChanges changes = {};
  std::string finished = {};  // what there is to say of a run that has nothing left to do

  // The folder is to hold this run alone: it doesn't go on there.
  [[nodiscard]] bool starts_anew() const { return !goes_on_there(); }
  // From one of its folder's own checkpoints.
  [[nodiscard]] bool goes_on_there() const { return resumed && resumed->is_in(folder); }
};

// InputError: data, model or optimizer don't fit, more ranks than samples, the output folder can't
// be written, nothing to resume, or another model or order of samples than before. `is_root`: rank
// 0 or the launcher, which alone looks at folder, checkpoint and files of data.
[[nodiscard]] PreparedRun prepare_run(const RunConfig& config, const RunParts& parts,
                                      const RunOptions& options, int ranks, bool is_root = true);

// The same for a run that is about to begin. InputError also where it would move or overwrite what
// kolo did not make.
[[nodiscard]] PreparedRun prepare_training(const RunConfig& config, const RunParts& parts,
                                           const RunOptions& options, int ranks, bool is_root);

// InputError: model.sync_batch_norm is on, but some of the network's can't be replaced.
void require_batch_norms_to_synchronize(const ModelConfig& config, torch::nn::Module& network);

// The whole checkpoint that the run goes on from, which is another one than was chosen by its
// headers where that turns out to be damaged. Adds to `warnings` what was passed over. For a rank.
[[nodiscard]] std::shared_ptr<LoadedCheckpoint> load_resumed(PreparedRun& run,
                                                             const RunOptions& options, int ranks,
                                                             std::vector<std::string>& warnings);

// What the ranks of a run must have alike: the program, each setting of the configuration but for
// the places that data are read from, which may differ between nodes, and what was found there: how
// many samples, of what shape, of which classes.
[[nodiscard]] std::vector<RankFact> facts_of(const RunConfig& config, const Datasets& datasets);

}  // namespace kolo
