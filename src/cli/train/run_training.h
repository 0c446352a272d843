#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "cli/rank/stop_signal.h"
#include "cli/train/run_folder.h"
#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/factories.h"
#include "kolo/observe/progress.h"

namespace kolo {

// A run of this model leaves the trained script in this file of its folder.
inline constexpr std::string_view torchscript_model = "torchscript";
inline constexpr std::string_view torchscript_file = "model.pt";

struct RunOptions {
  bool resume = false;
  bool timeline = false;  // record one, in the run's folder
  int verbosity = 0;
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
};

// InputError: data, model or optimizer don't fit, more ranks than samples, the output folder can't
// be written, nothing to resume or something else than this configuration describes.
[[nodiscard]] PreparedRun prepare_run(const RunConfig& config, const RunOptions& options,
                                      int ranks);

// Trains, and writes the run's folder (rank 0). Returns the exit status: 0, or 75 when stopped on
// request after a checkpoint.
[[nodiscard]] int run_training(PreparedRun prepared, const Communicator& communicator,
                               const RunOptions& options, StopSignal& stop);

}  // namespace kolo
