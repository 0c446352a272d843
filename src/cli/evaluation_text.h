#pragma once

#include <string>

namespace kolo {

struct RunEvaluation;

// Text for people: totals, a line for each class or target, and the confusion matrix if it fits 80
// columns.
[[nodiscard]] std::string to_text(const RunEvaluation& report);

// JSON for programs, with the whole matrix.
[[nodiscard]] std::string to_json(const RunEvaluation& report);

}  // namespace kolo
