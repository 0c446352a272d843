#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "run/run_folder.h"

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

// A file by which rank 0 tells kolo, which has started the ranks, that they have stopped as they
// were asked to, with all saved: where not kolo but mpirun itself was asked, as by a SIGTERM to
// every process of a job, mpirun's status says only that it has ended them.

// The environment variable with the text of the note; notes of other texts are other jobs'.
inline constexpr const char* stop_note_variable = "KOLO_STOP_NOTE";

// A text for this job and no other.
[[nodiscard]] std::string new_stop_note();

// Leaves the note, as the last thing that rank 0 does; nothing where kolo has not started the
// ranks.
void leave_stop_note(const RunFolder& folder);

// Tells who has started them whether the note `text` was left, and removes it.
[[nodiscard]] bool take_stop_note(const RunFolder& folder, const std::string& text);

}  // namespace kolo
