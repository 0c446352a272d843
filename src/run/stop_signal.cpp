#include "run/stop_signal.h"

#include <csignal>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "kolo/launch/exit_status.h"
#include "kolo/launch/launch_environment.h"

namespace kolo {

namespace {

[[noreturn]] void end(const std::string& by) {
  const auto message =
      fmt::format("kolo: stopped{} before the training began\n", by.empty() ? "" : " by " + by);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(exit_stopped);
}

}  // namespace

StopSignal::StopSignal() {
  // kolo's launcher repeats it: after the first one it says nothing new.
  if (environment_variable("KOLO_LAUNCHED")) std::signal(SIGUSR1, SIG_IGN);
  signals_.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGUSR1},
                   SignalPipe::Catching::first);
}

bool StopSignal::is_requested() {
  if (!received_) received_ = signals_->next();
  return received_.has_value();
}

std::string StopSignal::name() const {
  if (!received_) return {};
  const bool is_translated = *received_ == SIGUSR1 && environment_variable("KOLO_LAUNCHED");
  return is_translated ? std::string() : describe_signal(*received_);
}

EndAtOnce::EndAtOnce(StopSignal& stop, Says says)
    : thread_([&stop, says](const std::stop_token& is_over) {
        constexpr int patience_ms = 50;
        while (!is_over.stop_requested()) {
          pollfd ready{stop.descriptor(), POLLIN, 0};
          if (::poll(&ready, 1, patience_ms) <= 0 || !stop.is_requested()) continue;
          const bool is_of_people = says == Says::what_people_sent && !stop.may_be_launchers();
          if (says == Says::everything || is_of_people) end(stop.name());
          ::_exit(exit_stopped);
        }
      }) {}

}  // namespace kolo
