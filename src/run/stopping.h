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

// A clock time before which a run has to have saved and stopped (--stop-before).

// "18:30" or "18:30:15" (the next time that the clock says so), "2026-11-24T18:30",
// "2026-11-24 18:30:15" (local time), "+2h30m" (also d and s): in seconds since 1970. `now` is too.
// Nothing for what is not understood.
[[nodiscard]] std::optional<double> parse_stop_time(std::string_view text, double now);

// In which the launcher tells the ranks, so that "+2h30m" means the same after a restart: seconds
// since 1970.
inline constexpr const char* stop_time_variable = "KOLO_STOP_TIME";

// "2026-11-24 18:30:00", local time.
[[nodiscard]] std::string describe_time(double seconds);

// Says when it is time to stop, early enough to save: it keeps twice the longest time between two
// questions (at every step, and every batch of a validation) and twice the longest that a
// checkpoint took, at least 10 seconds. For one thread.
class StopTime {
 public:
  static constexpr double least_margin = 10;
  // Bytes per second that a checkpoint is thought to be written with until the first one was: a
  // slow disk.
  static constexpr double least_speed = 100e6;

  explicit StopTime(double time) : time_(time) {}

  // How large checkpoints are, before the first was written.
  void expect_checkpoints(std::uint64_t bytes);
  // That one was written, in so many seconds.
  void note_checkpoint(double seconds);

  // `now`: in seconds since 1970. `steady`: by a clock that nobody sets.
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

// Who asks a run to stop: the program, or else signals; and the time that RunOptions::stop_before
// says. For one thread.
class Stopping {
 public:
  Stopping(const RunOptions& options, const LaunchEnvironment& environment);
  // Until then a signal ends the process at once (StopSignal).
  void begin();

  [[nodiscard]] bool is_requested();
  // "SIGTERM"; empty: not known.
  [[nodiscard]] std::string by() const;

  // Where there is a time: null otherwise.
  [[nodiscard]] StopTime* time() { return time_ ? &*time_ : nullptr; }

 private:
  bool is_late();

  std::function<bool()> asked_;  // of the program
  std::optional<StopTime> time_;
  bool is_late_ = false;
  std::optional<StopSignal> signals_;
};

}  // namespace kolo
