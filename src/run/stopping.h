#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "kolo/run/run.h"
#include "run/launch/signals.h"

namespace kolo {

// Time of --stop-before in seconds since 1970, as `now`: "18:30" or "18:30:15" (the next such
// time), "2026-11-24T18:30", "2026-11-24 18:30:15" (local time), "+2h30m" (also d and s). Nothing
// for other texts.
[[nodiscard]] std::optional<double> parse_stop_time(std::string_view text, double now);

// Variable by which the launcher tells its ranks that time, which a restart keeps.
inline constexpr const char* stop_time_variable = "KOLO_STOP_TIME";

// Local time: "2026-11-24 18:30:00".
[[nodiscard]] std::string describe_time(double seconds);

// Tells when to stop so early that the run can save: twice the longest time between two questions
// (asked at every step, and every batch of a validation) and twice the longest that a checkpoint
// took before, at least 10 seconds. For one thread.
class StopTime {
 public:
  static constexpr double least_margin = 10;
  // Bytes per second that a slow disk writes, assumed until a checkpoint was written.
  static constexpr double least_speed = 100e6;

  explicit StopTime(double time) : time_(time) {}

  // Tells the size of checkpoints, before the first was written.
  void expect_checkpoints(std::uint64_t bytes);
  // Tells that a checkpoint was written in so many seconds.
  void note_checkpoint(double seconds);

  // `now`: in seconds since 1970. `steady`: the same moment by a clock that nobody sets.
  [[nodiscard]] bool has_come(double now, std::chrono::steady_clock::time_point steady);
  [[nodiscard]] double margin() const;
  [[nodiscard]] double time() const { return time_; }

 private:
  double time_;
  double longest_step_ = 0, longest_write_ = 0;
  double expected_write_ = 0;  // until one was written
  std::optional<std::chrono::steady_clock::time_point> last_;
  bool has_come_ = false;
};

// Requests to stop a run, by the program or else by signals, and RunOptions::stop_before. For one
// thread.
class Stopping {
 public:
  Stopping(const RunOptions& options, const LaunchEnvironment& environment);
  // Until then a signal ends the process at once (StopSignal).
  void begin();

  [[nodiscard]] bool is_requested();
  // Names the reason, "SIGTERM"; empty: unknown.
  [[nodiscard]] std::string by() const;

  // Null without RunOptions::stop_before.
  [[nodiscard]] StopTime* time() { return time_ ? &*time_ : nullptr; }

 private:
  bool is_late();

  std::function<bool()> asked_;  // the program's
  std::optional<StopTime> time_;
  bool is_late_ = false;
  std::optional<StopSignal> signals_;
};

}  // namespace kolo
