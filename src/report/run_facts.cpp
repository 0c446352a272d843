#include "report/run_facts.h"

#include <fmt/format.h>

#include "kolo/base/text.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

// A text of a start; empty where it has none.
std::string text_of(const Json& start, const char* name) {
  const auto found = start.is_object() ? start.find(name) : start.end();
  return found != start.end() && found->is_string() ? found->get<std::string>() : "";
}

// "0.1.0, git 6e74f51719d7 with changes"
std::string version_of(const Json& start) {
  constexpr std::size_t short_hash = 12;
  const auto version = text_of(start, "version"), commit = text_of(start, "commit");
  if (commit.empty()) return version;
  return fmt::format("{}, git {}{}", version, commit.substr(0, short_hash),
                     commit.ends_with("-dirty") ? " with changes" : "");
}

// The texts that aren't empty, with commas.
std::string joined(std::vector<std::string> texts) {
  std::erase(texts, "");
  return join(texts);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> facts_of(const RunRecord& run,
                                                          const Json& starts) {
  const bool has_starts = starts.is_array() && !starts.empty();
  const Json first = has_starts ? starts.front() : Json();
  const auto resumptions = has_starts ? starts.size() - 1 : 0;
  const auto parameters =
      run.parameters ? fmt::format("{} parameters", format_count(*run.parameters)) : "";
  std::vector<std::pair<std::string, std::string>> facts = {
      {"command", text_of(first, "command")},
      {"directory", text_of(first, "directory")},
      {"begun", text_of(first, "time")},
      {"resumed", resumptions == 0
                      ? ""
                      : fmt::format("{} time{}, last on {}", resumptions,
                                    resumptions == 1 ? "" : "s", text_of(starts.back(), "time"))},
      {"machine", joined({text_of(first, "host"), text_of(first, "machine")})},
      {"ranks", run.ranks ? fmt::format("{}", *run.ranks) : ""},
      {"network", joined({run.setting("model.name"), parameters})},
      {"data", run.setting("data.name")},
      {"kolo", version_of(first)}};
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

}  // namespace kolo
