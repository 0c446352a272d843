#include "optim/typed_optimizer.h"

#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo::optim {

namespace {

template <typename T>
void check(const FlatOptimizer& optimizer, const FlatSlice<T>& slice, double learning_rate,
           std::int64_t step) {
  const std::size_t size = slice.parameters.size();
  const auto fail_unless = [&](bool holds, const std::string& problem) {
    if (!holds) throw Error(fmt::format("optimizer {}: {}", optimizer.name(), problem));
  };
  fail_unless(slice.gradients.size() == size,
              fmt::format("{} gradients for {} parameters, expected as many",
                          slice.gradients.size(), size));
  const auto names = optimizer.state_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    fail_unless(slice.state[i].size() == size,
                fmt::format("{} elements of {} for {} parameters, expected as many",
                            slice.state[i].size(), names[i], size));
  }
  fail_unless(step >= 1, fmt::format("step {}, expected a count from 1", step));
  fail_unless(std::isfinite(learning_rate) && learning_rate >= 0,
              fmt::format("learning rate {}, expected a number of 0 or more", learning_rate));
}

}  // namespace

void require(bool accepted, std::string_view optimizer, std::string_view option, double value,
             std::string_view accepts) {
  if (accepted) return;
  throw InputError(
      fmt::format("optimizer {}: {} is {}, expected {}", optimizer, option, value, accepts));
}

void require_not_negative(std::string_view optimizer, std::string_view option, double value) {
  require(std::isfinite(value) && value >= 0, optimizer, option, value, "a number of 0 or more");
}

void require_positive(std::string_view optimizer, std::string_view option, double value) {
  require(std::isfinite(value) && value > 0, optimizer, option, value, "a number above 0");
}

void require_fraction(std::string_view optimizer, std::string_view option, double value) {
  require(value >= 0 && value < 1, optimizer, option, value, "a number from 0 to below 1");
}

void check_update(const FlatOptimizer& optimizer, const FlatSlice<float>& slice,
                  double learning_rate, std::int64_t step) {
  check(optimizer, slice, learning_rate, step);
}

void check_update(const FlatOptimizer& optimizer, const FlatSlice<double>& slice,
                  double learning_rate, std::int64_t step) {
  check(optimizer, slice, learning_rate, step);
}

}  // namespace kolo::optim
