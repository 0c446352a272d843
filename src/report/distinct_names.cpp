#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kolo/report/run_figures.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// The last `count` parts of a path, "b/run" of /a/b/run.
std::string end_of(const fs::path& path, std::size_t count) {
  std::vector<fs::path> parts;
  for (const auto& part : path) {
    if (!part.empty() && part != "/" && part != ".") parts.push_back(part);
  }
  fs::path end;
  for (auto i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i)
    end /= parts[i];
  return end.string();
}

bool are_distinct(const std::vector<std::string>& names) {
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

// What to call runs that have the same name.
std::vector<std::string> names_of(const std::vector<RunRecord*>& runs) {
  constexpr std::size_t longest = 6;
  std::vector<std::string> names;
  for (std::size_t count = 2; count <= longest; ++count) {
    names.clear();
    for (const auto* const run : runs)
      names.push_back(end_of(fs::absolute(run->source).lexically_normal(), count));
    if (are_distinct(names)) return names;
  }
  // The same run twice, say.
  names.clear();
  for (std::size_t i = 0; i < runs.size(); ++i)
    names.push_back(i == 0 ? runs[i]->name : fmt::format("{} ({})", runs[i]->name, i + 1));
  return names;
}

}  // namespace

void make_names_distinct(std::vector<RunRecord>& runs) {
  std::map<std::string, std::vector<RunRecord*>> same;
  for (auto& run : runs) same[run.name].push_back(&run);
  for (const auto& [name, these] : same) {
    if (these.size() == 1) continue;
    const auto names = names_of(these);
    for (std::size_t i = 0; i < these.size(); ++i) these[i]->name = names[i];
  }
}

}  // namespace kolo
