#include "tools/timeline_events.h"

#include <fstream>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

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

}  // namespace kolo
