#pragma once

#include <array>
#include <cstdint>

#include "kolo/base/enum_names.h"

namespace kolo {

// Answers of a classifier that are counted: those that are right, and those among the top 5.
enum class Metric : std::uint8_t { accuracy, top_k_categorical_accuracy };

// As Keras calls them.
constexpr auto enum_names(Metric) {
  return std::to_array<EnumName<Metric>>(
      {{Metric::accuracy, "accuracy"},
       {Metric::accuracy, "acc"},
       {Metric::accuracy, "categorical_accuracy"},
       {Metric::accuracy, "binary_accuracy"},
       {Metric::top_k_categorical_accuracy, "top_k_categorical_accuracy"}});
}

}  // namespace kolo
