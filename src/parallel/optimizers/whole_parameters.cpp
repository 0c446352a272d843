#include "parallel/optimizers/whole_parameters.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "kolo/base/checked.h"

namespace kolo::parallel {

namespace {

bool is_matrix(const ParameterDescription& parameter) {
  return parameter.shape.size() > 1;
}

std::int64_t elements_of(const OwnState& state) {
  return checked_product(std::span<const std::int64_t>(state.shape));
}

std::vector<OwnState> own_state_of(const FlatOptimizer& optimizer, const BucketPlan& plan,
                                   std::size_t parameter) {
  return optimizer.own_state(plan.parameters[parameter].shape, is_outer(plan, parameter));
}

// A pass over parameter, gradient and state counts for little beside products of matrices.
double cost_of(const FlatOptimizer& optimizer, const BucketPlan& plan, std::size_t parameter) {
  constexpr double pass = 20;  // operations for an element
  const auto& description = plan.parameters[parameter];
  return optimizer.step_operations(description.shape, is_outer(plan, parameter)) +
         pass * static_cast<double>(description.count());
}

}  // namespace

bool is_outer(const BucketPlan& plan, std::size_t parameter) {
  const auto& all = plan.parameters;
  const auto here = all.begin() + static_cast<std::ptrdiff_t>(parameter);
  if (!is_matrix(*here)) return false;
  return std::none_of(all.begin(), here, is_matrix) || std::none_of(here + 1, all.end(), is_matrix);
}

std::vector<int> deal_parameters(const BucketPlan& plan, const FlatOptimizer& optimizer,
                                 int ranks) {
  std::vector<double> costs;
  for (std::size_t i = 0; i < plan.parameters.size(); ++i)
    costs.push_back(cost_of(optimizer, plan, i));
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return costs[i]; });
  std::vector<double> loads(static_cast<std::size_t>(ranks), 0);
  std::vector<int> owners(costs.size(), 0);
  for (const std::size_t parameter : order) {
    const auto least = std::ranges::min_element(loads);
    owners[parameter] = static_cast<int>(least - loads.begin());
    *least += costs[parameter];
  }
  return owners;
}

std::int64_t own_state_count(const FlatOptimizer& optimizer, const BucketPlan& plan,
                             std::size_t parameter) {
  std::int64_t count = 0;
  for (const OwnState& state : own_state_of(optimizer, plan, parameter))
    count = checked_add(count, elements_of(state));
  return count;
}

std::vector<ArenaOptimizer::NamedState> named_own_state(const FlatOptimizer& optimizer,
                                                        const BucketPlan& plan,
                                                        std::size_t parameter,
                                                        const torch::Tensor& flat) {
  std::vector<ArenaOptimizer::NamedState> named;
  std::int64_t offset = 0;
  for (const OwnState& state : own_state_of(optimizer, plan, parameter)) {
    const std::int64_t count = elements_of(state);
    named.push_back({fmt::format("{}.{}", plan.parameters[parameter].name, state.name),
                     flat.narrow(0, offset, count).view(state.shape)});
    offset += count;
  }
  return named;
}

}  // namespace kolo::parallel
