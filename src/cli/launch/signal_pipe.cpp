#include "cli/launch/signal_pipe.h"

#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// A signal handler can reach nothing but what has static storage.
std::atomic<int> handler_descriptor{-1};

extern "C" void write_signal_number(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const auto written = ::write(handler_descriptor.load(), &byte, 1);
  errno = saved;
}

}  // namespace

SignalPipe::SignalPipe(std::initializer_list<int> signals) {
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
    throw Error(system_error_text("cannot watch for signals", errno));
  }
  read_end_ = FileDescriptor(ends[0]);
  write_end_ = FileDescriptor(ends[1]);
  handler_descriptor = write_end_.get();
  struct sigaction action {};
  action.sa_handler = write_signal_number;
  action.sa_flags = SA_RESTART;
  for (const int signal : signals) {
    previous_.push_back({signal, {}});
    if (::sigaction(signal, &action, &previous_.back().action) != 0) {
      throw Error(system_error_text("cannot watch for signals", errno));
    }
  }
}

SignalPipe::~SignalPipe() {
  for (const auto& entry : previous_) ::sigaction(entry.signal, &entry.action, nullptr);
  handler_descriptor = -1;
}

std::optional<int> SignalPipe::next() {
  unsigned char byte = 0;
  if (::read(read_end_.get(), &byte, 1) != 1) return std::nullopt;
  return byte;
}

}  // namespace kolo
