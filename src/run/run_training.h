#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kolo/comm/communicator.h"
#include "kolo/observe/progress.h"
#include "run/prepared_run.h"
#include "run/run_origin.h"

namespace kolo {

// A run of this model leaves the trained script in this file of its folder.
inline constexpr std::string_view torchscript_model = "torchscript";
inline constexpr std::string_view torchscript_file = "model.pt";

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
