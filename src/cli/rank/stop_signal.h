#pragma once

#include <optional>

#include "cli/launch/signal_pipe.h"

namespace kolo {

// Turns the signals by which people and schedulers ask a run to end (SIGINT, SIGTERM, SIGUSR1) into
// a question that can be asked. After the first signal they work as usual again, so that a second
// one ends the process at once.
class StopSignal {
 public:
  StopSignal();

  // True once a signal has come. Costs a system call.
  [[nodiscard]] bool is_requested();

  // The signal's name, "SIGTERM"; empty before one came.
  [[nodiscard]] const char* name() const;

 private:
  std::optional<SignalPipe> signals_;  // until the first
  std::optional<int> received_;
};

}  // namespace kolo
