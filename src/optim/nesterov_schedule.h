#pragma once

#include <cmath>

namespace kolo::optim {

// Nadam's momentum, mu(t) = beta1 * (1 - q^t / 2) with q = 0.96^decay, and the product of its
// values up to a step, without walking through them: a rank that joins late knows it too.
class NesterovSchedule {
 public:
  NesterovSchedule(double beta1, double decay) : beta1_(beta1), log_base_(decay * std::log(0.96)) {}

  [[nodiscard]] double momentum(double step) const {
    return beta1_ * (1 - 0.5 * std::exp(step * log_base_));
  }

  // mu(1) * ... * mu(step). The logarithm of 1 - q^i / 2 is minus the sum over k of (q^i / 2)^k /
  // k; summed over i first, each k gives a geometric series, and the terms halve from one k to the
  // next.
  [[nodiscard]] double product(double step) const {
    double logarithm = 0;
    double half = 1;  // 2^-k
    for (int k = 1; k <= 60; ++k) {
      half *= 0.5;
      const double log_ratio = k * log_base_;  // of q^k
      const double series = log_ratio == 0 ? step
                                           : std::exp(log_ratio) * std::expm1(step * log_ratio) /
                                                 std::expm1(log_ratio);
      logarithm -= half / k * series;
    }
    return std::pow(beta1_, step) * std::exp(logarithm);
  }

 private:
  double beta1_, log_base_;
};

}  // namespace kolo::optim
