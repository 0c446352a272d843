#pragma once

#include <string_view>

#include "kolo/report/run_record.h"

namespace kolo {

// A run's validation: the curve with a value an epoch, else the one by steps, else null.
inline const Curve* validation_curve(const RunRecord& run, std::string_view quantity) {
  const auto* const by_epoch = run.find(quantity, "validation");
  return by_epoch != nullptr ? by_epoch : run.find(quantity, "validation", true);
}

}  // namespace kolo
