#include "run/launch/signals.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/run/launch_ranks.h"

namespace kolo {

namespace {

// State in static storage, all that a signal handler can reach.
std::atomic<int> handler_descriptor{-1};
struct Earlier {
  int signal = 0;
  struct sigaction action {};
};
std::array<Earlier, 8> earlier_actions;
std::atomic<std::size_t> earlier_count{0};
std::atomic<bool> catches_first{false};

// Words with which a signal ends the process at once, by the signals' places in `stop_signals`.
constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
std::array<std::string, stop_signals.size()> last_words;
std::atomic<bool> ends_at_once{false};

void end_at_once(int signal) {
  for (std::size_t i = 0; i < stop_signals.size(); ++i) {
    if (stop_signals[i] != signal) continue;
    const auto& words = last_words[i];
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, words.data(), words.size());
    ::_exit(exit_stopped);
  }
}

void restore_actions() {
  for (std::size_t i = 0; i < earlier_count.load(); ++i)
    ::sigaction(earlier_actions[i].signal, &earlier_actions[i].action, nullptr);
}

extern "C" void write_signal_number(int signal) {
  if (ends_at_once.load()) end_at_once(signal);
  const int saved = errno;
  if (catches_first.load()) restore_actions();
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const auto written = ::write(handler_descriptor.load(), &byte, 1);
  errno = saved;
}

// SIGHUP stays ignored under nohup, so that the process outlives its terminal.
bool is_to_be_ignored(int signal) {
  struct sigaction action {};
  return signal == SIGHUP && ::sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

}  // namespace

SignalPipe::SignalPipe(std::initializer_list<int> all, Catching catching) {
  std::vector<int> signals(all);
  std::erase_if(signals, is_to_be_ignored);
  if (signals.size() > earlier_actions.size()) throw Error("too many signals to watch for");
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
    throw Error(system_error_text("cannot watch for signals", errno));
  }
  read_end_ = FileDescriptor(ends[0]);
  write_end_ = FileDescriptor(ends[1]);
  handler_descriptor = write_end_.get();
  catches_first = catching == Catching::first;
  std::size_t count = 0;
  for (const int signal : signals) {
    Earlier& earlier = earlier_actions[count++];
    earlier.signal = signal;
    if (::sigaction(signal, nullptr, &earlier.action) != 0)
      throw Error(system_error_text("cannot watch for signals", errno));
  }
  earlier_count = count;
  struct sigaction action {};
  action.sa_handler = write_signal_number;
  action.sa_flags = SA_RESTART;
  for (const int signal : signals) ::sigaction(signal, &action, nullptr);
}

SignalPipe::~SignalPipe() {
  restore_actions();
  earlier_count = 0;
  handler_descriptor = -1;
}

std::optional<int> SignalPipe::next() {
  unsigned char byte = 0;
  if (::read(read_end_.get(), &byte, 1) != 1) return std::nullopt;
  return byte;
}

void outlive_readers() {
  std::signal(SIGPIPE, SIG_IGN);
}

std::string describe_signal(int signal) {
  if (signal == SIGINT) return "Ctrl-C (SIGINT)";
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

namespace {

// kolo's launcher makes SIGUSR1 of what it is sent itself, and says so.
std::string name_for_people(int signal) {
  const bool is_translated = signal == SIGUSR1 && environment_variable("KOLO_LAUNCHED");
  return is_translated ? std::string() : describe_signal(signal);
}

}  // namespace

StopSignal::StopSignal(Says says) {
  for (std::size_t i = 0; i < stop_signals.size(); ++i) {
    const int signal = stop_signals[i];
    const bool is_said =
        says == Says::everything || (says == Says::all_but_sigterm && signal != SIGTERM);
    const auto name = name_for_people(signal);
    last_words[i] = is_said ? fmt::format("kolo: stopped{} before the training began\n",
                                          name.empty() ? "" : " by " + name)
                            : std::string();
  }
  // kolo's launcher repeats it: ignored again after the first one.
  if (environment_variable("KOLO_LAUNCHED")) std::signal(SIGUSR1, SIG_IGN);
  ends_at_once = true;
  signals_.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP, SIGUSR1},
                   SignalPipe::Catching::first);
}

StopSignal::~StopSignal() {
  signals_.reset();
  ends_at_once = false;
}

void StopSignal::begin() {
  ends_at_once = false;
}

bool StopSignal::is_requested() {
  if (!received_) received_ = signals_->next();
  return received_.has_value();
}

std::string StopSignal::name() const {
  return received_ ? name_for_people(*received_) : std::string();
}

}  // namespace kolo
