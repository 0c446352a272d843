#include "kolo/train/objective.h"

#include <limits>

#include "kolo/nn/metrics.h"

namespace kolo {

MetricSums sums_of(const Objective& objective, const torch::Tensor& loss,
                   const torch::Tensor& outputs, const torch::Tensor& targets) {
  MetricSums sums;
  sums.samples = static_cast<double>(targets.size(0));
  sums.loss = loss.item<double>() * sums.samples;
  if (!objective.counts_correct) {
    sums.correct = std::numeric_limits<double>::quiet_NaN();
    return sums;
  }
  sums.correct = static_cast<double>(count_correct(outputs, targets));
  if (objective.top > 0)
    sums.in_top = static_cast<double>(count_in_top(outputs, targets, objective.top));
  return sums;
}

}  // namespace kolo
