#include "kolo/observe/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/observe/format.h"
#include "observe/progress_line.h"

namespace kolo {

namespace {

constexpr double redraw_interval_seconds = 0.1;
constexpr const char* erase_line = "\r\x1b[K";

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As the C library chooses the character set: the first of these that is not empty.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto value = environment(name);
    if (value.empty()) continue;
    for (const char* spelling : {"UTF-8", "utf-8", "UTF8", "utf8"}) {
      if (value.find(spelling) != std::string_view::npos) return true;
    }
    return false;
  }
  return false;
}

double fraction_of(std::int64_t done, std::int64_t total) {
  if (total <= 0) return 1;
  return std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
}

}  // namespace

ProgressOptions detect_progress_options(int descriptor) {
  ProgressOptions options;
  options.terminal = ::isatty(descriptor) == 1 && environment("TERM") != "dumb";
  winsize size{};
  if (options.terminal && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.width = size.ws_col;
  }
  options.unicode = locale_is_utf8();
  return options;
}

ProgressBar::ProgressBar(std::ostream& stream, ProgressOptions options)
    : ProgressBar(stream, options, [stopwatch = Stopwatch()] { return stopwatch.seconds(); }) {}

ProgressBar::ProgressBar(std::ostream& stream, ProgressOptions options,
                         std::function<double()> clock)
    : stream_(stream), options_(options), clock_(std::move(clock)), last_plain_(clock_()) {}

ProgressBar::~ProgressBar() {
  if (is_drawn_) stream_ << '\n' << std::flush;
}

void ProgressBar::start(std::string label, std::int64_t total, std::int64_t done,
                        std::string unit) {
  const std::lock_guard lock(mutex_);
  wipe();
  epoch_ = Epoch{std::move(label), std::move(unit), total, done, done, {}, clock_()};
  if (options_.terminal) draw(*epoch_, time_left(*epoch_));
}

void ProgressBar::update(std::int64_t done, const ProgressFigures& figures) {
  const std::lock_guard lock(mutex_);
  if (!epoch_) return;
  epoch_->done = done;
  epoch_->figures = figures;
  const double now = clock_();
  const double last = options_.terminal ? last_drawn_ : last_plain_;
  const double interval =
      options_.terminal ? redraw_interval_seconds : options_.plain_interval_seconds;
  if (now - last >= interval) draw(*epoch_, time_left(*epoch_));
}

void ProgressBar::finish() {
  const std::lock_guard lock(mutex_);
  if (epoch_ && options_.terminal) {
    draw(*epoch_, "in " + format_clock(clock_() - epoch_->started));
    stream_ << '\n' << std::flush;
    is_drawn_ = false;
  }
  epoch_.reset();
}

void ProgressBar::clear() {
  const std::lock_guard lock(mutex_);
  wipe();
  stream_ << std::flush;
  epoch_.reset();
}

void ProgressBar::print_above(std::string_view line) {
  const std::lock_guard lock(mutex_);
  const bool was_drawn = is_drawn_;
  wipe();
  stream_ << line << '\n';
  if (was_drawn && epoch_) draw(*epoch_, time_left(*epoch_));
  stream_ << std::flush;
}

void ProgressBar::draw(const Epoch& epoch, std::string_view time_text) {
  const double fraction = fraction_of(epoch.done, epoch.total);
  const std::string total = format_count(epoch.total);
  ProgressTexts texts;
  texts.label = epoch.label;
  texts.percent = fmt::format("{:3} %", static_cast<int>(fraction * 100));
  texts.steps = fmt::format("{:>{}}/{}", format_count(epoch.done), total.size(), total);
  texts.time = time_text;
  const auto& figures = epoch.figures;
  if (figures.samples_per_second > 0) {
    texts.rate = fmt::format("{} {}/s", format_rate(figures.samples_per_second), epoch.unit);
  }
  if (figures.loss) texts.loss = fmt::format("loss {}", format_loss(*figures.loss));
  if (options_.terminal) {
    const auto width = static_cast<std::size_t>(std::max(options_.width, 1));
    stream_ << '\r' << render_line(texts, fraction, width, options_.unicode) << "\x1b[K"
            << std::flush;
    is_drawn_ = true;
    last_drawn_ = clock_();
  } else {
    stream_ << render_plain(texts) << '\n' << std::flush;
    last_plain_ = clock_();
  }
}

void ProgressBar::wipe() {
  if (is_drawn_) stream_ << erase_line;
  is_drawn_ = false;
}

std::string ProgressBar::time_left(const Epoch& epoch) const {
  const auto done_here = static_cast<double>(epoch.done - epoch.first_done);
  const auto to_do = static_cast<double>(std::max<std::int64_t>(epoch.total - epoch.done, 0));
  // Unknown as long as no step is done.
  const double seconds =
      done_here > 0 ? (clock_() - epoch.started) / done_here * to_do : std::nan("");
  return format_clock(seconds) + " left";
}

}  // namespace kolo
