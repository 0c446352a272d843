#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/nn/metrics.h"
#include "kolo/train/train_state.h"

namespace kolo {

// What kolo eval has found out.
struct EvaluationReport {
  std::string model, checkpoint, split;
  std::int64_t step = 0, epoch = 0;  // of the checkpoint
  int ranks = 1;
  MetricSums sums;
  std::int64_t top = 0;  // sums.in_top are of so many largest outputs; 0: not counted
  std::optional<ConfusionMatrix> matrix;  // none for targets that are numbers
  std::vector<std::string> class_names;  // empty: classes are shown by number
};

// For people: the totals; of classes a line each with what it is mostly taken for, and the confusion
// matrix where it fits a screen.
[[nodiscard]] std::string to_text(const EvaluationReport& report);

// The same for programs, with the whole matrix.
[[nodiscard]] nlohmann::ordered_json to_json(const EvaluationReport& report);

}  // namespace kolo
