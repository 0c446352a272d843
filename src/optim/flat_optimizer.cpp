#include "kolo/optim/flat_optimizer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "optim/typed_optimizer.h"

namespace kolo::optim {

template <typename T>
void check_slice(const FlatOptimizer& optimizer, const FlatSlice<T>& slice) {
  const std::size_t size = slice.parameters.size();
  const auto require_as_many = [&](std::size_t count, std::string_view what) {
    if (count == size) return;
    throw Error(fmt::format("optimizer {}: {} {} for {} parameters, expected as many",
                            optimizer.name(), count, what, size));
  };
  require_as_many(slice.gradients.size(), "gradients");
  const auto names = optimizer.state_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    require_as_many(slice.state[i].size(), fmt::format("elements of {}", names[i]));
}

template void check_slice(const FlatOptimizer&, const FlatSlice<float>&);
template void check_slice(const FlatOptimizer&, const FlatSlice<double>&);

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

void check_step(const FlatOptimizer& optimizer, StepRate rate, std::int64_t step) {
  if (step < 1) {
    throw Error(
        fmt::format("optimizer {}: step {}, expected a count from 1", optimizer.name(), step));
  }
  if (!std::isfinite(rate.learning_rate) || rate.learning_rate < 0) {
    throw Error(fmt::format("optimizer {}: learning rate {}, expected a number of 0 or more",
                            optimizer.name(), rate.learning_rate));
  }
  if (rate.weight >= 0 && rate.weight <= 1) return;
  throw Error(
      fmt::format("optimizer {}: weight {} of a step in the average, expected one from 0 to 1",
                  optimizer.name(), rate.weight));
}

void check_device(const FlatOptimizer& optimizer, std::size_t size, const DeviceUpdate& device) {
  const std::size_t needed = optimizer.device_workspace_bytes(size);
  if (device.workspace.size() < needed) {
    throw Error(fmt::format(
        "optimizer {}: a workspace of {} bytes for a step of {} elements on a device, expected {} "
        "(device_workspace_bytes)",
        optimizer.name(), device.workspace.size(), size, needed));
  }
  if (device.constants == nullptr) {
    throw Error(
        fmt::format("optimizer {}: a step on a device without constants; expected a copy "
                    "of constants() in the device's memory",
                    optimizer.name()));
  }
}

}  // namespace kolo::optim

namespace kolo {

namespace {

[[noreturn]] void fail_without_device_steps(const FlatOptimizer& optimizer) {
  throw Error(
      fmt::format("optimizer {}: it has no step on CUDA devices; keep its buffers in the host's "
                  "memory, or give it one (FlatOptimizer::update_on_device)",
                  optimizer.name()));
}

}  // namespace

StepRate RateHistory::note(double learning_rate) {
  largest = std::max(largest, learning_rate);
  sum_of_squares += largest * largest;
  // A rate whose square is not finite makes a step count alone.
  if (!std::isfinite(sum_of_squares)) return {learning_rate, 1};
  return {learning_rate, sum_of_squares > 0 ? largest * largest / sum_of_squares : 0};
}

StepConstants FlatOptimizer::constants(StepRate /*rate*/, std::int64_t /*step*/,
                                       bool /*is_vector*/) const {
  fail_without_device_steps(*this);
}

void FlatOptimizer::update_on_device(const FlatSlice<float>& /*slice*/,
                                     const DeviceUpdate& /*device*/) const {
  fail_without_device_steps(*this);
}

void FlatOptimizer::update_on_device(const FlatSlice<double>& /*slice*/,
                                     const DeviceUpdate& /*device*/) const {
  fail_without_device_steps(*this);
}

std::unique_ptr<FlatOptimizer> make_sgd(const SgdOptions& options) {
  optim::require_not_negative("sgd", "momentum", options.momentum);
  optim::require(std::isfinite(options.dampening), "sgd", "dampening", options.dampening,
                 "a number");
  if (options.nesterov) {
    optim::require(options.momentum > 0, "sgd", "momentum", options.momentum,
                   "a number above 0 for nesterov");
    optim::require(options.dampening == 0, "sgd", "dampening", options.dampening, "0 for nesterov");
  }
  const auto constants = [options](StepRate rate, std::int64_t step, const auto& decay) {
    return optim::stored<optim::SgdConstants>({.decay = decay,
                                               .rate = rate.learning_rate,
                                               .momentum = options.momentum,
                                               .gradient_weight = 1 - options.dampening,
                                               .first_step = step == 1 ? 1. : 0.});
  };
  const optim::Elementwise sgd{"sgd", optim::momentum_state(options.momentum),
                               optim::decay_of(options), constants};
  if (options.momentum == 0) return optim::elementwise<optim::SgdStep>(sgd);
  return options.nesterov ? optim::elementwise<optim::SgdMomentumStep, true>(sgd)
                          : optim::elementwise<optim::SgdMomentumStep, false>(sgd);
}

std::unique_ptr<FlatOptimizer> make_adam(const AdamOptions& options) {
  const std::string_view name = options.decoupled_decay ? "adamw" : "adam";
  optim::require_moments(name, options);
  const auto constants = [options](StepRate rate, std::int64_t step, const auto& decay) {
    const double root_scale = 1 / std::sqrt(optim::bias_correction(options.beta2, step));
    // The step carries the bias correction where epsilon is added to the uncorrected root.
    const bool is_before = options.epsilon_before_correction;
    return optim::stored<optim::AdamConstants>(
        {.decay = decay,
         .moments = optim::moments_of(options),
         .step_size = rate.learning_rate / optim::bias_correction(options.beta1, step) /
                      (is_before ? root_scale : 1),
         .root_scale = is_before ? 1 : root_scale});
  };
  optim::Elementwise adam{name, {"exp_avg", "exp_avg_sq"}, optim::decay_of(options), constants};
  if (!options.amsgrad) return optim::elementwise<optim::AdamStep, false>(adam);
  adam.states.emplace_back("max_exp_avg_sq");
  return optim::elementwise<optim::AdamStep, true>(adam);
}

}  // namespace kolo
