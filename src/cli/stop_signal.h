#pragma once

#include <optional>

#include "kolo/base/file.h"

namespace kolo {

// Turns the signals by which people and schedulers ask a run to end (SIGINT, SIGTERM, SIGUSR1) into
// a question that can be asked. Made before any other thread, because threads inherit that the
// signals are blocked. After the first signal they work as usual again, so that a second one ends
// the process at once.
class StopSignal {
 public:
  StopSignal();

  // True once a signal has come. Costs a system call.
  [[nodiscard]] bool is_requested();

  // The signal's name, "SIGTERM"; empty before one came.
  [[nodiscard]] const char* name() const;

 private:
  FileDescriptor signals_;
  std::optional<int> received_;
};

}  // namespace kolo
