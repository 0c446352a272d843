#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/rank/stop_signal.h"
#include "cli/train/resume_changes.h"
#include "cli/train/run_folder.h"
#include "cli/train/run_origin.h"
#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/factories.h"
#include "kolo/observe/progress.h"

namespace kolo {

// A run of this model leaves the trained script in this file of its folder.
inline constexpr std::string_view torchscript_model = "torchscript";
inline constexpr std::string_view torchscript_file = "model.pt";

struct RunOptions {
  std::optional<std::string> resume;  // from which checkpoint (load_chosen)
  bool allow_data_change = false;     // of what is resumed
  bool timeline = false;              // record one, in the run's folder
  // Rank 0 or the launcher: looks at the folder, and at the files of a data set (make_datasets),
  // which the other ranks leave to it.
  bool is_root = true;
  int verbosity = 0;
  RunOrigin origin;  // of rank 0
  ProgressOptions progress;
};

// Everything a run needs that can be wrong on the user's side, made and checked before anything is
// written or any rank is started.
struct PreparedRun {
  RunConfig config;
  RunFolder folder;
  Datasets datasets;
  std::shared_ptr<Network> network;
  std::unique_ptr<FlatOptimizer> optimizer;
  std::int64_t steps_of_epoch = 0;
  std::optional<ResumePoint> resumed = std::nullopt;
  ResumeChanges changes = {};
  std::string finished = {};  // what there is to say of a run that has nothing left to do

  // The folder is to hold this run alone: it doesn't go on there.
  [[nodiscard]] bool starts_anew() const { return !resumed || !resumed->is_in(folder); }
};

// InputError: data, model or optimizer don't fit, more ranks than samples, the output folder can't
// be written, nothing to resume or something else than this configuration describes, or another
// order of samples than before.
[[nodiscard]] PreparedRun prepare_run(const RunConfig& config, const RunOptions& options,
                                      int ranks);

// InputError: model.sync_batch_norm is on, but some of the network's can't be replaced.
void require_batch_norms_to_synchronize(const ModelConfig& config, torch::nn::Module& network);

// Trains, and writes the run's folder (rank 0). Returns the exit status: 0, or 75 when stopped on
// request after a checkpoint.
[[nodiscard]] int run_training(PreparedRun prepared, const Communicator& communicator,
                               const RunOptions& options, StopSignal& stop);

}  // namespace kolo
