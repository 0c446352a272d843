#pragma once

#include <algorithm>
#include <chrono>
#include <deque>

namespace kolo {

// How often a job may be started again: so many times within any hour. So a run of weeks outlives
// the failures of weeks, while one that can't go on ends soon.
class RestartsOfHour {
 public:
  using Clock = std::chrono::steady_clock;
  explicit RestartsOfHour(int most) : most_(most) {}

  // Those within the hour before `now`.
  [[nodiscard]] int count(Clock::time_point now) const {
    return static_cast<int>(std::ranges::count_if(
        times_, [&](Clock::time_point time) { return time > now - std::chrono::hours(1); }));
  }
  [[nodiscard]] bool may_restart(Clock::time_point now) const { return count(now) < most_; }

  void note(Clock::time_point now) {
    times_.push_back(now);
    while (times_.size() > static_cast<std::size_t>(most_)) times_.pop_front();
  }

 private:
  int most_;
  std::deque<Clock::time_point> times_;
};

}  // namespace kolo
