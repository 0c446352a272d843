#include "cli/rank/stop_signal.h"

#include <csignal>

namespace kolo {

StopSignal::StopSignal() {
  signals_.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGUSR1});
}

bool StopSignal::is_requested() {
  if (received_) return true;
  received_ = signals_->next();
  if (received_) signals_.reset();
  return received_.has_value();
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
