#pragma once

#include <optional>
#include <string>
#include <thread>

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

  // What the user sent, "SIGTERM"; empty before one came, and where that was to kolo's launcher,
  // which has made another signal of it and says itself what it was.
  [[nodiscard]] std::string name() const;

  // Readable when a signal has come (for poll).
  [[nodiscard]] int descriptor() const { return signals_->descriptor(); }

 private:
  std::optional<SignalPipe> signals_;
  std::optional<int> received_;
};

// While it lives a signal ends the process at once, with status 75: until a training begins there
// is nothing to save. `says_so`: on stderr.
class EndAtOnce {
 public:
  EndAtOnce(StopSignal& stop, bool says_so);

 private:
  std::jthread thread_;
};

}  // namespace kolo
