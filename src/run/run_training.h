#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/factories.h"
#include "kolo/observe/progress.h"
#include "kolo/run/run.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "run/run_origin.h"

namespace kolo {

// A run of this model leaves the trained script in this file of its folder.
inline constexpr std::string_view torchscript_model = "torchscript";
inline constexpr std::string_view torchscript_file = "model.pt";

// Everything a run needs that can be wrong on the user's side, made and checked before anything is
// written or any rank is started.
struct PreparedRun {
  RunConfig config;
  RunFolder folder;
  Datasets datasets;
  std::shared_ptr<Network> network;
  Objective objective;
  std::unique_ptr<FlatOptimizer> optimizer;
  std::int64_t steps_of_epoch = 0;
  // Of rank 0, which looks for all at what there is to go on with.
  std::optional<ResumePoint> resumed = std::nullopt;
  ResumeChanges changes = {};
  std::string finished = {};  // what there is to say of a run that has nothing left to do

  // The folder is to hold this run alone: it doesn't go on there.
  [[nodiscard]] bool starts_anew() const { return !resumed || !resumed->is_in(folder); }
};

// InputError: data, model or optimizer don't fit, more ranks than samples, the output folder can't
// be written, nothing to resume or something else than this configuration describes, or another
// order of samples than before. `is_root`: rank 0 or the launcher, which looks at the folder, at
// the checkpoint's headers, and at the files of a data set; the other ranks leave that to it.
[[nodiscard]] PreparedRun prepare_run(const RunConfig& config, const RunParts& parts,
                                      const RunOptions& options, int ranks, bool is_root = true);

// The same for a run that is about to begin. InputError also where it would move or overwrite what
// kolo did not make.
[[nodiscard]] PreparedRun prepare_training(const RunConfig& config, const RunParts& parts,
                                           const RunOptions& options, int ranks, bool is_root);

// InputError: model.sync_batch_norm is on, but some of the network's can't be replaced.
void require_batch_norms_to_synchronize(const ModelConfig& config, torch::nn::Module& network);

// What a run has besides what is prepared.
struct RunContext {
  RunOptions options;
  std::vector<Observer*> observers;
  RunOrigin origin;  // of rank 0
  ProgressOptions progress;
  std::function<bool()> stop_requested;
  std::function<std::string()> stopped_by;  // "SIGTERM"; empty: not known
};

[[nodiscard]] std::ostream& console_of(const RunOptions& options);

// Trains, and writes the run's folder (rank 0). Returns the exit status: 0, or 75 when stopped on
// request after a checkpoint. Collective.
[[nodiscard]] int run_training(PreparedRun prepared, const Communicator& communicator,
                               const RunContext& context);

}  // namespace kolo
