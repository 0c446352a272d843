#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace kolo {

enum class FindingStatus : std::uint8_t { ok, warning, problem };

// What one of doctor's checks found out.
struct Finding {
  std::string name;  // what was looked at: "BLAS"
  FindingStatus status = FindingStatus::ok;
  std::string text;    // what is there, in one line
  std::string remedy;  // what to do about it; empty when all is well
};

// One line a finding, its remedy on the next.
void print_findings(std::ostream& stream, std::span<const Finding> findings, bool unicode,
                    int width = 0);

// One JSON object: {"version", "status": the worst of all, "findings": [{name, status, text,
// remedy}]}.
void print_findings_as_json(std::ostream& stream, std::span<const Finding> findings);

[[nodiscard]] FindingStatus worst_status(std::span<const Finding> findings);

// 1 when something is a problem, else 0: with warnings everything works.
[[nodiscard]] int exit_status_of(std::span<const Finding> findings);

}  // namespace kolo
