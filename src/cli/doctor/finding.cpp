#include "cli/doctor/finding.h"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/observe/wrap.h"

namespace kolo {

namespace {

const char* name_of(FindingStatus status) {
  constexpr const char* names[] = {"ok", "warning", "problem"};
  return names[static_cast<std::size_t>(status)];
}

const char* mark_of(FindingStatus status, bool unicode) {
  constexpr const char* symbols[] = {"✓", "!", "✗"};
  constexpr const char* words[] = {"ok     ", "warning", "PROBLEM"};
  return (unicode ? symbols : words)[static_cast<std::size_t>(status)];
}

}  // namespace

FindingStatus worst_status(std::span<const Finding> findings) {
  auto worst = FindingStatus::ok;
  for (const auto& finding : findings) worst = std::max(worst, finding.status);
  return worst;
}

int exit_status_of(std::span<const Finding> findings) {
  return worst_status(findings) == FindingStatus::problem ? 1 : 0;
}

void print_findings(std::ostream& stream, std::span<const Finding> findings, bool unicode,
                    int columns) {
  std::size_t width = 0;
  for (const auto& finding : findings) width = std::max(width, finding.name.size());
  const std::string indent(width + (unicode ? 4 : 10), ' ');
  for (const auto& finding : findings) {
    auto lines = fmt::format("{} {:{}}  {}\n", mark_of(finding.status, unicode), finding.name,
                             width, finding.text);
    if (!finding.remedy.empty())
      lines += fmt::format("{}{}{}\n", indent, unicode ? "→ " : "-> ", finding.remedy);
    stream << wrap(lines, columns, static_cast<int>(indent.size()));
  }
}

void print_findings_as_json(std::ostream& stream, std::span<const Finding> findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& finding : findings) {
    list.push_back({{"name", finding.name},
                    {"status", name_of(finding.status)},
                    {"text", finding.text},
                    {"remedy", finding.remedy}});
  }
  const nlohmann::ordered_json report = {
      {"version", KOLO_VERSION}, {"status", name_of(worst_status(findings))}, {"findings", list}};
  // What other programs have printed may not be UTF-8.
  stream << report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace kolo
