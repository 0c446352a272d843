#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>
#include <vector>

#include "kolo/base/file.h"

namespace kolo {

// Makes signals readable from a file descriptor, whichever thread the kernel gives them to.
// (Blocking them for a signalfd is not enough: libraries such as OpenBLAS start threads before
// main() does, and those don't block them.) At most one at a time. The destructor restores what was
// before.
class SignalPipe {
 public:
  explicit SignalPipe(std::initializer_list<int> signals);
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

}  // namespace kolo
