#include "cli/stop_signal.h"

#include <cerrno>
#include <csignal>

#include <sys/signalfd.h>
#include <unistd.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t signals = stop_signals();
  if (const int error = pthread_sigmask(SIG_BLOCK, &signals, nullptr)) {
    throw Error(system_error_text("cannot block signals", error));
  }
  signals_ = FileDescriptor(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals_.is_open()) throw Error(system_error_text("cannot watch for signals", errno));
}

bool StopSignal::is_requested() {
  if (received_) return true;
  signalfd_siginfo info{};
  if (read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return false;
  received_ = static_cast<int>(info.ssi_signo);
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  return true;
}

const char* StopSignal::name() const {
  switch (received_.value_or(0)) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "";
  }
}

}  // namespace kolo
