#include "run/stopping.h"

#include <algorithm>
#include <array>
#include <ctime>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"

namespace kolo {

namespace {

// Reads "2h30m".
std::optional<double> parse_duration(std::string_view text) {
  double seconds = 0;
  while (!text.empty()) {
    const auto end = text.find_first_not_of("0123456789");
    if (end == text.npos || end == 0 || end > 6) return std::nullopt;
    const auto number = parse_number<int>(text.substr(0, end));
    const auto unit = std::string_view("smhd").find(text[end]);
    if (!number || unit == std::string_view::npos) return std::nullopt;
    constexpr std::array<double, 4> units{1, 60, 3600, 86400};
    seconds += *number * units.at(unit);
    text.remove_prefix(end + 1);
  }
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

// Reads all of the text by one of these forms.
bool parse_by(const std::string& text, std::initializer_list<const char*> forms, std::tm& local) {
  for (const char* form : forms) {
    const std::tm before = local;
    const char* const end = ::strptime(text.c_str(), form, &local);
    if (end != nullptr && *end == '\0') return true;
    local = before;
  }
  return false;
}

double seconds_of(std::tm local) {
  local.tm_isdst = -1;
  return static_cast<double>(std::mktime(&local));
}

}  // namespace

std::optional<double> parse_stop_time(std::string_view text, double now) {
  if (text.starts_with('+')) {
    const auto duration = parse_duration(text.substr(1));
    return duration ? std::optional(now + *duration) : std::nullopt;
  }
  const std::string words(text);
  const auto begin = static_cast<std::time_t>(now);
  std::tm local{};
  ::localtime_r(&begin, &local);
  local.tm_sec = 0;
  if (parse_by(words, {"%H:%M:%S", "%H:%M"}, local)) {
    const double today = seconds_of(local);
    if (today > now) return today;
    ++local.tm_mday;  // mktime() makes a date of it
    return seconds_of(local);
  }
  local = {};
  if (parse_by(words,
               {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"},
               local))
    return seconds_of(local);
  return std::nullopt;
}

std::string describe_time(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  ::localtime_r(&time, &local);
  std::array<char, 64> text{};
  const auto size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return {text.data(), size};
}

void StopTime::expect_checkpoints(std::uint64_t bytes) {
  expected_write_ = static_cast<double>(bytes) / least_speed;
}

void StopTime::note_checkpoint(double seconds) {
  longest_write_ = std::max(longest_write_, seconds);
  expected_write_ = 0;
}

double StopTime::margin() const {
  return std::max(least_margin, 2 * (longest_step_ + std::max(longest_write_, expected_write_)));
}

bool StopTime::has_come(double now, std::chrono::steady_clock::time_point steady) {
  if (last_) {
    const double seconds = std::chrono::duration<double>(steady - *last_).count();
    longest_step_ = std::max(longest_step_, seconds);
  }
  last_ = steady;
  has_come_ = has_come_ || now >= time_ - margin();
  return has_come_;
}

Stopping::Stopping(const RunOptions& options, const LaunchEnvironment& environment)
    : asked_(options.stop_requested) {
  if (options.stop_before) time_.emplace(*options.stop_before);
  if (asked_) return;
  using enum StopSignal::Says;
  signals_.emplace(environment.rank > 0        ? nothing
                   : environment.is_launched() ? all_but_sigterm
                                               : everything);
}

void Stopping::begin() {
  if (signals_) signals_->begin();
}

bool Stopping::is_late() {
  is_late_ = time_ && time_->has_come(wall_time(), std::chrono::steady_clock::now());
  return is_late_;
}

bool Stopping::is_requested() {
  return (signals_ ? signals_->is_requested() : asked_()) || is_late();
}

std::string Stopping::by() const {
  if (is_late_) return fmt::format("--stop-before {}", describe_time(time_->time()));
  return signals_ ? signals_->name() : std::string();
}

}  // namespace kolo
