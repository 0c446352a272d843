#include "report/timeline_spans.h"

#include <algorithm>
#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"

namespace kolo {

namespace {

using Json = nlohmann::json;

// Every event has a line of its own, which is what lets a long timeline be read in little memory.
// A last line that a killed rank has cut off is left out.
void for_each_event(const std::filesystem::path& path,
                    const std::function<void(const Json&)>& event) {
  std::ifstream file(path);
  if (!file) throw InputError(fmt::format("timeline: cannot read {}", path.string()));
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.pop_back();
    if (line.empty() || line.front() != '{') continue;
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("ph") && json.contains("pid")) event(json);
  }
}

// "update bucket 3": the number is an argument of the event.
std::string name_of(const Json& event) {
  const auto name = event.value("name", "");
  const auto arguments = event.value("args", Json::object());
  const auto bucket = arguments.find("bucket");
  return bucket == arguments.end() ? name : fmt::format("{} {}", name, bucket->dump());
}

struct StepTimes {
  double begin, end;
};

std::map<std::int64_t, StepTimes> times_of_steps(const std::filesystem::path& path) {
  std::map<std::int64_t, StepTimes> steps;
  for_each_event(path, [&](const Json& json) {
    if (json.value("name", "") != "step" || !json.contains("args")) return;
    const auto number = json["args"].value("step", std::int64_t{-1});
    const double begin = json.value("ts", 0.0), end = begin + json.value("dur", 0.0);
    const auto [step, is_new] = steps.try_emplace(number, StepTimes{begin, end});
    if (is_new) return;
    step->second.begin = std::min(step->second.begin, begin);
    step->second.end = std::max(step->second.end, end);
  });
  return steps;
}

}  // namespace

TimelineStep read_timeline_step(const std::filesystem::path& file, std::int64_t step) {
  const auto steps = times_of_steps(file);
  if (steps.empty())
    throw InputError(
        fmt::format("timeline: {} tells of no steps; expected the timeline.json of a "
                    "run, or what kolo timeline makes",
                    file.string()));
  const auto middle = std::next(steps.begin(), static_cast<std::ptrdiff_t>(steps.size() / 2));
  const auto found = step == 0 ? middle : steps.find(step);
  if (found == steps.end())
    throw InputError(fmt::format("timeline: {} has no step {}; it has {} to {}", file.string(),
                                 step, steps.begin()->first, steps.rbegin()->first));
  TimelineStep result{found->first, found->second.begin, found->second.end, {}, {}};
  for_each_event(file, [&](const Json& json) {
    const int rank = json["pid"].get<int>();
    const auto thread = json.value("tid", std::int64_t{0});
    const auto kind = json["ph"].get<std::string>();
    if (kind == "M" && json.value("name", "") == "thread_name")
      result.thread_names[{rank, thread}] = json["args"].value("name", "");
    if (kind != "X") return;
    TimelineSpan span{rank, thread, name_of(json), json.value("ts", 0.0), json.value("dur", 0.0)};
    if (span.end() > result.begin && span.begin < result.end) result.spans.push_back(span);
  });
  return result;
}

}  // namespace kolo
