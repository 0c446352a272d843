#include "launch/signal_pipe.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// A signal handler can reach nothing but what has static storage.
std::atomic<int> handler_descriptor{-1};
// What the first signal puts back.
struct Earlier {
  int signal = 0;
  struct sigaction action {};
};
std::array<Earlier, 8> earlier_actions;
std::atomic<std::size_t> earlier_count{0};

extern "C" void write_signal_number(int signal) {
  const int saved = errno;
  for (std::size_t i = 0; i < earlier_count.load(); ++i)
    ::sigaction(earlier_actions[i].signal, &earlier_actions[i].action, nullptr);
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const auto written = ::write(handler_descriptor.load(), &byte, 1);
  errno = saved;
}

}  // namespace

SignalPipe::SignalPipe(std::initializer_list<int> signals, Catching catching) {
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
  if (catching == Catching::first) {
    if (signals.size() > earlier_actions.size()) throw Error("too many signals to watch for");
    std::size_t count = 0;
    for (const int signal : signals) {
      Earlier& earlier = earlier_actions[count++];
      earlier.signal = signal;
      ::sigaction(signal, nullptr, &earlier.action);
    }
    earlier_count = count;
  }
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
  earlier_count = 0;
}

std::optional<int> SignalPipe::next() {
  unsigned char byte = 0;
  if (::read(read_end_.get(), &byte, 1) != 1) return std::nullopt;
  return byte;
}

std::string describe_signal(int signal) {
  if (signal == SIGINT) return "Ctrl-C (SIGINT)";
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

}  // namespace kolo
