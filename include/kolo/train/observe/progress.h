#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace kolo {

struct ProgressOptions {
  bool terminal = false;  // the stream is a terminal that understands ANSI sequences
  int width = 80;         // its columns
  bool unicode = true;    // false: ASCII alone
  double plain_interval_seconds = 10;
};

// Options for a file descriptor: terminal or not (TERM=dumb counts as none), width, UTF-8 by the
// locale.
[[nodiscard]] ProgressOptions detect_progress_options(int descriptor);

// Figures that a progress bar shows besides the part done.
struct ProgressFigures {
  double samples_per_second = 0;  // left out when not above zero
  std::optional<double> loss;
};

// A bar that shows how far an epoch has come, for several threads:
//
//   epoch 2/5 ━━━━━━━━╸      62 %  581/938  21 480 images/s  loss 0.3121  00:14 left
//
// On a terminal it is redrawn in place, at most ten times a second, and shows less where the width
// is scarce. Elsewhere it prints a plain line at most every plain_interval_seconds.
class ProgressBar {
 public:
  // `clock`: monotonic seconds.
  ProgressBar(std::ostream& stream, ProgressOptions options);
  ProgressBar(std::ostream& stream, ProgressOptions options, std::function<double()> clock);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  // Leaves the cursor on a line of its own.
  ~ProgressBar();

  // Begins an epoch of `total` steps, of which `done` were done before (a resumed one). `label`:
  // "epoch 2/5"; `unit`: what a sample is called, "images".
  void start(std::string label, std::int64_t total, std::int64_t done = 0,
             std::string unit = "images");
  void update(std::int64_t done, const ProgressFigures& figures);
  // Ends the epoch and wipes the bar away, for a line of one's own about it.
  void clear();
  // Prints `line` where the bar is, and the bar again beneath (RunLog::route_console_through).
  void print_above(std::string_view line);

 private:
  struct Epoch {
    std::string label, unit;
    std::int64_t total = 0, first_done = 0, done = 0;
    ProgressFigures figures;
    double started = 0;
  };

  void draw(const Epoch& epoch);
  void wipe();
  [[nodiscard]] std::string time_left(const Epoch& epoch) const;

  std::mutex mutex_;
  std::ostream& stream_;
  ProgressOptions options_;
  std::function<double()> clock_;
  std::optional<Epoch> epoch_;
  bool is_drawn_ = false;
  double last_drawn_ = 0;
  double last_plain_ = 0;
};

}  // namespace kolo
