#include "kolo/train/observe/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <utility>
#include <vector>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/text.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

// The look of a progress bar, apart from when it is drawn.

// The texts of a line, without the bar. Empty ones are left out.
struct ProgressTexts {
  std::string label, percent, steps, rate, loss, time;
};

constexpr std::size_t smallest_bar = 6;
constexpr std::size_t largest_bar = 40;

std::string tail_of(const ProgressTexts& texts) {
  std::vector<std::string> tail{texts.percent, texts.steps, texts.rate, texts.loss, texts.time};
  std::erase(tail, "");
  return join(tail, "  ");
}

// The first `columns` characters.
std::string cut(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t taken = 0; end < text.size(); ++end) {
    const bool starts_character = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U;
    if (starts_character && taken++ == columns) break;
  }
  return std::string(text.substr(0, end));
}

// A bar of `cells` columns; `fraction` from 0 to 1.
std::string render_bar(double fraction, std::size_t cells, bool unicode) {
  if (!unicode && cells < 3) return std::string(cells, ' ');
  const std::size_t inner = unicode ? cells : cells - 2;
  const double part = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(2 * inner);
  const auto halves = static_cast<std::size_t>(part);
  std::string bar;
  for (std::size_t cell = 0; cell < inner; ++cell) {
    const bool is_full = 2 * cell + 2 <= halves;
    const bool is_half = 2 * cell + 1 == halves;
    if (unicode) {
      bar += is_full ? "━" : is_half ? "╸" : " ";
    } else {
      bar += is_full ? '=' : is_half ? '-' : ' ';
    }
  }
  return unicode ? bar : "[" + bar + "]";
}

// All texts and the bar in at most `width` columns; what does not fit goes, the least needed first:
// steps, rate, bar, loss, time.
std::string render_line(ProgressTexts texts, double fraction, std::size_t width, bool unicode) {
  const auto columns = [&] {
    return display_width(texts.label) + 2 + display_width(tail_of(texts));
  };
  const auto fits_with_bar = [&] { return columns() + smallest_bar + 1 <= width; };
  if (!fits_with_bar()) texts.steps.clear();
  if (!fits_with_bar()) texts.rate.clear();
  const bool has_bar = fits_with_bar();
  if (columns() > width) texts.loss.clear();
  if (columns() > width) texts.time.clear();
  std::string line = texts.label;
  if (has_bar) {
    const auto cells = std::min(largest_bar, width - columns() - 1);
    line += fmt::format(" {}", render_bar(fraction, cells, unicode));
  }
  return cut(line + "  " + tail_of(texts), width);
}

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
    for (const char* spelling : {"UTF-8", "utf-8", "UTF8", "utf8"})
      if (value.find(spelling) != std::string_view::npos) return true;
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
  if (options.terminal && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    options.width = size.ws_col;
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
  if (options_.terminal) draw(*epoch_);
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
  if (now - last >= interval) draw(*epoch_);
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
  if (was_drawn && epoch_) draw(*epoch_);
  stream_ << std::flush;
}

void ProgressBar::draw(const Epoch& epoch) {
  const double fraction = fraction_of(epoch.done, epoch.total);
  const std::string total = format_count(epoch.total);
  ProgressTexts texts;
  texts.label = epoch.label;
  texts.percent = fmt::format("{:3} %", static_cast<int>(fraction * 100));
  texts.steps = fmt::format("{:>{}}/{}", format_count(epoch.done), total.size(), total);
  texts.time = time_left(epoch);
  const auto& figures = epoch.figures;
  if (figures.samples_per_second > 0)
    texts.rate = fmt::format("{} {}/s", format_rate(figures.samples_per_second), epoch.unit);
  if (figures.loss) texts.loss = fmt::format("loss {}", format_loss(*figures.loss));
  if (options_.terminal) {
    const auto width = static_cast<std::size_t>(std::max(options_.width, 1));
    stream_ << '\r' << render_line(texts, fraction, width, options_.unicode) << "\x1b[K"
            << std::flush;
    is_drawn_ = true;
    last_drawn_ = clock_();
  } else {
    stream_ << texts.label << "  " << tail_of(texts) << '\n' << std::flush;
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
