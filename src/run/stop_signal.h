#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "launch/signal_pipe.h"

namespace kolo {

// Turns the signals by which people and schedulers ask a run to end (SIGINT, SIGTERM, SIGUSR1) into
// a question that can be asked. After the first signal they work as usual again, so that a second
// one ends the process at once; but for SIGUSR1 of kolo's launcher, which repeats it until it is
// heard, and asks with SIGTERM for an end at once.
class StopSignal {
 public:
  StopSignal();

  // True once a signal has come. Costs a system call.
  [[nodiscard]] bool is_requested();

  // What the user sent, "SIGTERM"; empty before one came, and where that was to kolo's launcher,
  // which has made another signal of it and says itself what it was.
  [[nodiscard]] std::string name() const;

  // Whether it is one that launchers send as well, to the ranks of a job in which another has
  // failed.
  [[nodiscard]] bool may_be_launchers() const { return received_ == SIGTERM; }

  // Readable when a signal has come (for poll).
  [[nodiscard]] int descriptor() const { return signals_->descriptor(); }

 private:
  std::optional<SignalPipe> signals_;
  std::optional<int> received_;
};

// While it lives a signal ends the process at once, with status 75: until a training begins there
// is nothing to save.
class EndAtOnce {
 public:
  // Of which signals it says so, on stderr.
  enum class Says { nothing, what_people_sent, everything };

  EndAtOnce(StopSignal& stop, Says says);

 private:
  std::jthread thread_;
};

}  // namespace kolo
