#include "kolo/nn/metrics.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "nn/tensor_text.h"

namespace kolo {

namespace {

bool is_one_logit(const torch::Tensor& logits) {
  return logits.dim() == 1 || (logits.dim() == 2 && logits.size(1) == 1);
}

// Classes as indices, [N].
torch::Tensor predicted_classes(const torch::Tensor& logits) {
  if (is_one_logit(logits)) return logits.flatten().gt(0).to(torch::kInt64);
  return logits.argmax(1);
}

torch::Tensor target_classes(const torch::Tensor& logits, const torch::Tensor& targets) {
  if (is_one_logit(logits) && targets.is_floating_point())
    return targets.flatten().gt(0.5).to(torch::kInt64);
  return is_one_logit(logits) ? targets.flatten() : targets;
}

void require_rows(const torch::Tensor& logits, const torch::Tensor& targets) {
  const bool fits = is_one_logit(logits)
                        ? targets.numel() == logits.numel()
                        : logits.dim() == 2 && targets.dim() == 1 &&
                              targets.size(0) == logits.size(0) && !targets.is_floating_point();
  if (fits) return;
  throw InputError(fmt::format(
      "metrics: logits [{}] and targets {}, expected logits [N, classes] and the classes' "
      "indices [N], or one logit and one target per sample",
      fmt::join(logits.sizes().vec(), ", "), shape_of(targets)));
}

}  // namespace

torch::Tensor correct_samples(const torch::Tensor& logits, const torch::Tensor& targets) {
  require_rows(logits, targets);
  const torch::NoGradGuard no_gradient;
  return predicted_classes(logits).eq(target_classes(logits, targets)).sum();
}

torch::Tensor samples_in_top(const torch::Tensor& logits, const torch::Tensor& targets,
                             std::int64_t k) {
  if (k < 1) throw InputError(fmt::format("metrics: the top {} classes, expected 1 or more", k));
  require_rows(logits, targets);
  if (logits.dim() != 2) throw InputError("metrics: the top classes need logits [N, classes]");
  const torch::NoGradGuard no_gradient;
  if (logits.size(0) == 0) return torch::zeros({}, logits.options().dtype(torch::kLong));
  const torch::Tensor classes = targets.to(torch::kInt64).reshape({-1, 1});
  const torch::Tensor own = logits.gather(1, classes);
  // Equal logits rank by class index, as argmax ranks them: the top 1 is what accuracy counts.
  const torch::Tensor earlier = torch::arange(logits.size(1), classes.options()).lt(classes);
  const torch::Tensor ahead = logits.gt(own).logical_or(logits.eq(own).logical_and(earlier)).sum(1);
  const torch::Tensor finite = logits.isfinite().all(1);
  return ahead.lt(k).logical_and(finite).sum();
}

void ErrorSums::add(const ErrorSums& other) {
  if (other.values == 0) return;
  const double all = values + other.values, distance = other.mean - mean;
  variation += other.variation + distance * distance * values * (other.values / all);
  mean += distance * (other.values / all);
  values = all;
  absolute += other.absolute;
  squared += other.squared;
}

double ErrorSums::r_squared() const {
  return variation > 0 ? 1 - squared / variation : std::numeric_limits<double>::quiet_NaN();
}

ErrorSums error_sums(const torch::Tensor& outputs, const torch::Tensor& targets) {
  if (outputs.sizes() != targets.sizes()) {
    throw InputError(fmt::format("metrics: outputs [{}] and targets [{}], expected one shape",
                                 fmt::join(outputs.sizes().vec(), ", "),
                                 fmt::join(targets.sizes().vec(), ", ")));
  }
  const torch::NoGradGuard no_gradient;
  if (targets.numel() == 0) return {};
  const auto values = targets.to(torch::kDouble).flatten();
  const auto errors = outputs.to(torch::kDouble).flatten() - values;
  // Distances from the first value: those of equal targets have no rounding.
  const auto distances = values - values[0];
  const auto mean = distances.mean();
  const auto sums = torch::stack({errors.abs().sum(), errors.square().sum(), values[0] + mean,
                                  (distances - mean).square().sum()})
                        .cpu();
  const auto* const of = sums.data_ptr<double>();
  return {static_cast<double>(targets.numel()), of[0], of[1], of[2], of[3]};
}

ConfusionMatrix::ConfusionMatrix(std::int64_t classes)
    : classes_(std::max<std::int64_t>(classes, 2)) {
  if (classes < 1) {
    throw InputError(
        fmt::format("metrics: a confusion matrix of {} classes, expected 1 or more", classes));
  }
  counts_.resize(narrow<std::size_t>(checked_multiply(classes_, classes_)));
}

void ConfusionMatrix::add(const torch::Tensor& logits, const torch::Tensor& targets) {
  require_rows(logits, targets);
  const std::int64_t columns = is_one_logit(logits) ? 2 : logits.size(1);
  if (columns != classes_) {
    throw InputError(fmt::format("metrics: logits of {} classes for a confusion matrix of {}",
                                 columns, classes_));
  }
  const auto predicted = predicted_classes(logits).cpu();
  const auto target = target_classes(logits, targets).to(torch::kCPU, torch::kInt64).contiguous();
  const std::span predictions(predicted.data_ptr<std::int64_t>(),
                              narrow<std::size_t>(predicted.numel()));
  const std::span truths(target.data_ptr<std::int64_t>(), predictions.size());
  for (const std::int64_t truth : truths) {
    if (truth >= 0 && truth < classes_) continue;
    throw InputError(
        fmt::format("metrics: target {}, expected a class from 0 to {}", truth, classes_ - 1));
  }
  for (std::size_t sample = 0; sample < truths.size(); ++sample)
    ++counts_[static_cast<std::size_t>(truths[sample] * classes_ + predictions[sample])];
}

std::vector<double> ConfusionMatrix::accuracy_by_class() const {
  std::vector<double> result;
  for (std::int64_t target = 0; target < classes_; ++target) {
    const auto row = counts_.begin() + target * classes_;
    const auto samples = static_cast<double>(std::accumulate(row, row + classes_, std::int64_t{0}));
    result.push_back(static_cast<double>(row[target]) / samples);
  }
  return result;
}

}  // namespace kolo
