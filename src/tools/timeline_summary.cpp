#include "kolo/tools/timeline.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

using Json = nlohmann::json;

// Microseconds from the timeline's beginning.
struct Interval {
  double begin = 0, end = 0;
};

Interval interval_of(const Json& event) {
  const auto begin = event.value("ts", 0.0);
  return {begin, begin + event.value("dur", 0.0)};
}

// Calls `event` with each event whose line `is_wanted`, in the order of the file. Every event has a
// line of its own, so a long timeline is read in little memory. A last line that a killed rank has
// cut off is skipped.
void for_each_event(const std::filesystem::path& path,
                    const std::function<bool(std::string_view line)>& is_wanted,
                    const std::function<void(const Json&)>& event) {
  std::ifstream file(path);
  if (!file) throw InputError(fmt::format("timeline: cannot read {}", path.string()));
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.pop_back();
    if (line.empty() || line.front() != '{' || !is_wanted(line)) continue;
    const auto json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("ph") && json.contains("pid")) event(json);
  }
}

constexpr int first_device_row = 2000;  // rows below are those of threads and messages

// Length of time in which at least one interval lasts.
double length_of_union(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  double length = 0, end = std::numeric_limits<double>::lowest();
  for (const auto& interval : intervals) {
    length += std::max(0., interval.end - std::max(end, interval.begin));
    end = std::max(end, interval.end);
  }
  return length;
}

// Rows of a rank's threads, or those of its device, which have their own steps.
struct Track {
  int rank = 0;
  bool is_device = false;

  friend auto operator<=>(const Track&, const Track&) = default;
};

Track track_of(const Json& event) {
  return {event["pid"].get<int>(), event.value("tid", 0) >= first_device_row};
}

class Steps {
 public:
  explicit Steps(const std::filesystem::path& file) {
    const auto is_step = [](std::string_view line) {
      return line.find("\"step\"") != std::string_view::npos;
    };
    for_each_event(file, is_step, [this](const Json& event) {
      if (event.value("name", "") != "step" || !event.contains("args")) return;
      const auto [begin, end] = interval_of(event);
      const auto number = event["args"].value("step", std::int64_t{-1});
      by_track_[track_of(event)].insert_or_assign(begin, std::pair(end, number));
    });
  }

  // Number of the step at this time.
  [[nodiscard]] std::optional<std::int64_t> number_at(const Track& track, double time) const {
    const auto found = by_track_.find(track);
    if (found == by_track_.end()) return std::nullopt;
    const auto next = found->second.upper_bound(time);
    if (next == found->second.begin()) return std::nullopt;
    const auto& [end, number] = std::prev(next)->second;
    return time <= end ? std::optional(number) : std::nullopt;
  }
  [[nodiscard]] std::size_t count(int rank) const {
    const auto found = by_track_.find({rank, false});
    return found == by_track_.end() ? 0 : found->second.size();
  }

 private:
  // By their beginnings: ends and numbers.
  std::map<Track, std::map<double, std::pair<double, std::int64_t>>> by_track_;
};

// The passes of a rank in a step.
struct Passes {
  std::vector<Interval> intervals;
  std::set<int> micro_batches;
  int stage = 0;
};

struct Messages {
  std::map<std::int64_t, std::vector<Interval>> by_step;
  double bytes_sent = 0, messages_sent = 0;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : steps_(file) {
    const auto is_wanted = [](std::string_view line) {
      return line.find(" micro-batch ") != std::string_view::npos ||
             line.find("\"halo\"") != std::string_view::npos;
    };
    for_each_event(file, is_wanted, [this](const Json& event) {
      if (event["ph"] != "X") return;
      const auto track = track_of(event);
      const auto interval = interval_of(event);
      const auto step = steps_.number_at(track, interval.begin);
      if (!step) return;
      const auto name = event.value("name", "");
      if (const auto pass = pipeline_pass_named(name)) add(track, *step, *pass, interval);
      if (name == "halo" && event.contains("args")) add(track.rank, *step, event["args"], interval);
    });
  }

  [[nodiscard]] TimelineSummary summary() const {
    TimelineSummary summary{.pipeline = pipeline(), .halos = {}};
    for (const auto& [rank, messages] : messages_) {
      const auto steps = static_cast<double>(steps_.count(rank));
      auto& totals = summary.halos[rank];
      totals.bytes_sent = messages.bytes_sent / steps;
      totals.messages_sent = messages.messages_sent / steps;
      for (const auto& [step, intervals] : messages.by_step)
        totals.seconds += 1e-6 * length_of_union(intervals) / steps;
    }
    return summary;
  }

 private:
  void add(const Track& track, std::int64_t step, const PipelinePass& pass,
           const Interval& interval) {
    auto& passes = passes_[step][track];
    passes.intervals.push_back(interval);
    passes.micro_batches.insert(pass.micro_batch);
    passes.stage = pass.stage;
  }

  void add(int rank, std::int64_t step, const Json& message, const Interval& interval) {
    auto& messages = messages_[rank];
    messages.by_step[step].push_back(interval);
    if (!message.value("collective", "").starts_with("send")) return;
    messages.bytes_sent += message.value("bytes", 0.0);
    messages.messages_sent += 1;
  }

  [[nodiscard]] std::optional<PipelineIdle> pipeline() const {
    if (passes_.empty()) return std::nullopt;
    PipelineIdle idle{.steps = passes_.size()};
    std::set<int> stages, micro_batches;
    std::map<int, double> steps_of_rank;
    for (const auto& [number, by_track] : passes_) {
      std::map<int, Passes> by_rank;  // a device's, which come last, instead of its thread's
      for (const auto& [track, passes] : by_track) by_rank[track.rank] = passes;
      Interval all = by_rank.begin()->second.intervals.front();
      for (const auto& [rank, passes] : by_rank) {
        for (const auto& interval : passes.intervals)
          all = {std::min(all.begin, interval.begin), std::max(all.end, interval.end)};
        stages.insert(passes.stage);
        micro_batches.insert(passes.micro_batches.begin(), passes.micro_batches.end());
      }
      const auto length = all.end - all.begin;
      for (const auto& [rank, passes] : by_rank) {
        idle.idle_fractions[rank] +=
            length > 0 ? 1 - length_of_union(passes.intervals) / length : 0;
        steps_of_rank[rank] += 1;
      }
    }
    for (auto& [rank, fraction] : idle.idle_fractions) fraction /= steps_of_rank[rank];
    idle.shape = {.ranks = static_cast<int>(stages.size()),
                  .micro_batches = static_cast<int>(micro_batches.size())};
    // Stages count from 0 on.
    if (idle.shape.ranks == *stages.rbegin() + 1) idle.ideal = ideal_idle_fraction(idle.shape);
    return idle;
  }

  Steps steps_;
  std::map<std::int64_t, std::map<Track, Passes>> passes_;
  std::map<int, Messages> messages_;
};

// "rank 0 12.5 %, rank 1 14.0 %", of many ranks the least, the most and the mean.
std::string by_rank(const std::map<int, double>& values, const std::string& format) {
  constexpr std::size_t most_ranks = 8;
  const auto write = [&](double value) { return fmt::format(fmt::runtime(format), value); };
  std::vector<std::string> texts;
  double sum = 0, least = values.begin()->second, most = least;
  for (const auto& [rank, value] : values) {
    texts.push_back(fmt::format("rank {} {}", rank, write(value)));
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (values.size() <= most_ranks) return join(texts);
  return fmt::format("{} ranks {} to {}, mean {}", values.size(), write(least), write(most),
                     write(sum / static_cast<double>(values.size())));
}

std::string text_of(const PipelineIdle& idle) {
  const auto& shape = idle.shape;
  const auto ideal =
      idle.ideal ? fmt::format("; equal stages without messages: {:.1f} %", 100 * *idle.ideal)
                 : std::string("; ranks are missing");
  std::map<int, double> percent;
  for (const auto& [rank, fraction] : idle.idle_fractions) percent[rank] = 100 * fraction;
  return fmt::format(
      "idle in a pipeline of {}, {} micro-batch{}{}\n  mean of {}: {}\n",
      counted(shape.ranks, "rank"), shape.micro_batches, shape.micro_batches == 1 ? "" : "es",
      ideal, counted(static_cast<std::int64_t>(idle.steps), "step"), by_rank(percent, "{:.1f} %"));
}

}  // namespace

TimelineSummary summarize_timeline(const std::filesystem::path& file) {
  return Reader(file).summary();
}

std::string to_text(const TimelineSummary& summary) {
  const auto text = summary.pipeline ? text_of(*summary.pipeline) : std::string();
  if (summary.halos.empty()) return text;
  std::map<int, double> megabytes, messages, milliseconds;
  for (const auto& [rank, totals] : summary.halos) {
    megabytes[rank] = totals.bytes_sent / 1e6;
    messages[rank] = totals.messages_sent;
    milliseconds[rank] = 1e3 * totals.seconds;
  }
  return text + fmt::format(
                    "halos in a step, on average\n  sent: {}\n  in messages: {}\n  time on "
                    "their way: {}\n",
                    by_rank(megabytes, "{:.3g} MB"), by_rank(messages, "{:.1f}"),
                    by_rank(milliseconds, "{:.3g} ms"));
}

}  // namespace kolo
