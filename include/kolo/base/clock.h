#pragma once

#include <chrono>
#include <string>

namespace kolo {

// Seconds of a monotonic clock since construction or the last restart.
class Stopwatch {
 public:
  Stopwatch() : start_(Clock::now()) {}
  void restart() { start_ = Clock::now(); }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
};

// Seconds since 1970 (UTC), for time stamps in files that other programs read.
[[nodiscard]] double wall_time();

// "4.2 s", "3 min 05 s", "2 h 07 min".
[[nodiscard]] std::string format_duration(double seconds);

}  // namespace kolo
