#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "kolo/base/file.h"

namespace kolo {

// Makes signals readable from a file descriptor, whichever thread the kernel gives them to.
// (Blocking them for a signalfd is not enough: libraries such as OpenBLAS start threads before
// main() does, and those don't block them.) At most one at a time. The destructor restores what was
// before.
class SignalPipe {
 public:
  // How many signals are caught. After the first one all of them work again as before, at once, so
  // that a second one ends the process even where nobody asks for the first.
  enum class Catching { all, first };

  explicit SignalPipe(std::initializer_list<int> signals, Catching catching = Catching::all);
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;
  ~SignalPipe();

  // Readable when a signal has come (for poll).
  [[nodiscard]] int descriptor() const { return read_end_.get(); }

  // The number of the next signal, if one has come. Never waits.
  [[nodiscard]] std::optional<int> next();

 private:
  struct Previous {
    int signal;
    struct sigaction action;
  };
  FileDescriptor read_end_, write_end_;
  std::vector<Previous> previous_;
};

// "SIGTERM", "Ctrl-C (SIGINT)".
[[nodiscard]] std::string describe_signal(int signal);

}  // namespace kolo
