#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kolo/base/enum_names.h"

namespace kolo {

// Answers of a classifier that are counted: those that are right, and those among the top 5.
enum class Metric : std::uint8_t { accuracy, top_k_categorical_accuracy };

// Keras's names.
constexpr auto enum_names(Metric) {
  return std::to_array<EnumName<Metric>>(
      {{Metric::accuracy, "accuracy"},
       {Metric::accuracy, "acc"},
       {Metric::accuracy, "categorical_accuracy"},
       {Metric::accuracy, "binary_accuracy"},
       {Metric::top_k_categorical_accuracy, "top_k_categorical_accuracy"}});
}

}  // namespace kolo

namespace at {
class Tensor;
}

// Counts that ranks can add up. Nothing here records for backward; what returns numbers waits for
// the device when the tensors aren't on the CPU.
namespace kolo {

// How many samples of a batch a classifier gets right. Logits [N, classes] and targets [N], int64:
// those with their largest logit at the target (top-1); of equal logits the one that torch's argmax
// takes counts. One logit a sample, [N, 1] or [N], and targets 0 and 1, integer or floating, [N] or
// [N, 1]: those with a logit above 0 exactly where the target is above 1/2.
[[nodiscard]] at::Tensor correct_samples(const at::Tensor& logits, const at::Tensor& targets);

// Counts the samples whose target is among the k largest logits. Of equal logits the one of the
// lower class comes first, as in correct_samples(), which is the top 1. A sample with a logit that
// isn't finite doesn't count. logits [N, classes], targets [N], int64; k at least 1, and with k of
// classes or more every sample counts.
[[nodiscard]] at::Tensor samples_in_top(const at::Tensor& logits, const at::Tensor& targets,
                                        std::int64_t k);

// Sums over outputs that are numbers and their targets. Those of several ranks add up.
struct ErrorSums {
  double values = 0;     // how many
  double absolute = 0;   // sum of |output - target|
  double squared = 0;    // sum of (output - target)^2
  double mean = 0;       // of the targets
  double variation = 0;  // sum of (target - mean)^2; exactly 0 where all targets are equal

  // Adds those of other values. Rounding does no harm where the mean is large (T. Chan, G. Golub,
  // R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
  void add(const ErrorSums& other);

  [[nodiscard]] double mean_absolute_error() const { return absolute / values; }
  [[nodiscard]] double root_mean_squared_error() const { return std::sqrt(squared / values); }
  // Coefficient of determination: 1 is perfect, 0 as good as the targets' mean. NaN where all
  // targets are equal.
  [[nodiscard]] double r_squared() const;
};

// Sums of a batch, in float64. InputError unless outputs and targets have one shape.
[[nodiscard]] ErrorSums error_sums(const at::Tensor& outputs, const at::Tensor& targets);

// Counts how often samples of each class were taken for each class. The matrix of several ranks is
// the sum of theirs: all-reduce counts().
class ConfusionMatrix {
 public:
  // InputError for less than one class. One class stands for a network of one logit, which tells
  // two classes apart.
  explicit ConfusionMatrix(std::int64_t classes);

  // Adds a batch, classified as correct_samples() does it. InputError for a target that is no
  // class, or other shapes.
  void add(const at::Tensor& logits, const at::Tensor& targets);

  // At least 2.
  [[nodiscard]] std::int64_t classes() const { return classes_; }
  // Row by row: how often samples of class `target` were taken for `predicted` is at
  // target * classes() + predicted.
  [[nodiscard]] std::span<const std::int64_t> counts() const { return counts_; }
  [[nodiscard]] std::span<std::int64_t> counts() { return counts_; }

  // Recall of each class: the share of its samples taken for it; NaN for a class without any.
  [[nodiscard]] std::vector<double> accuracy_by_class() const;

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

}  // namespace kolo
