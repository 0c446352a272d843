#include "pictures/timeline_events.h"

#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// What comes after `beginning`; none where the text begins otherwise.
std::optional<std::string_view> after(std::string_view beginning, std::string_view text) {
  if (!text.starts_with(beginning)) return std::nullopt;
  return text.substr(beginning.size());
}

// Takes a number away from the beginning of the text.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

void for_each_event(const std::filesystem::path& path,
                    const std::function<bool(std::string_view line)>& is_wanted,
                    const std::function<void(const nlohmann::json&)>& event) {
  std::ifstream file(path);
  if (!file) throw InputError(fmt::format("timeline: cannot read {}", path.string()));
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.pop_back();
    if (line.empty() || line.front() != '{' || !is_wanted(line)) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("ph") && json.contains("pid")) event(json);
  }
}

std::optional<PipelinePass> pipeline_pass_named(std::string_view name) {
  for (const auto work :
       {PipelineWork::forward, PipelineWork::backward, PipelineWork::weight_gradient}) {
    auto rest = after(fmt::format("{} stage ", name_of(work)), name);
    if (!rest) continue;
    const auto stage = take_number(*rest);
    rest = after(" micro-batch ", *rest);
    if (!stage || !rest) return std::nullopt;
    const auto micro_batch = take_number(*rest);
    if (!micro_batch || !rest->empty()) return std::nullopt;
    return PipelinePass{work, *stage, *micro_batch};
  }
  return std::nullopt;
}

}  // namespace kolo
