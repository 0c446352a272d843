#include "kolo/parallel/finite_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "parallel/checks/named_parameters.h"
#include "parallel/kernels.h"

namespace kolo {

bool is_finite(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.contiguous();
  const auto count = static_cast<std::size_t>(flat.numel());
  switch (flat.scalar_type()) {
    case torch::kDouble:
      return !parallel::has_all_bits(
          std::span(static_cast<const std::uint64_t*>(flat.data_ptr()), count),
          0x7ff0'0000'0000'0000U);
    case torch::kFloat:
      return !parallel::has_all_bits(
          std::span(static_cast<const std::uint32_t*>(flat.data_ptr()), count), 0x7f80'0000U);
    case torch::kBFloat16:
      return !parallel::has_all_bits(
          std::span(static_cast<const std::uint16_t*>(flat.data_ptr()), count), 0x7f80U);
    case torch::kHalf:
      return !parallel::has_all_bits(
          std::span(static_cast<const std::uint16_t*>(flat.data_ptr()), count), 0x7c00U);
    default:
      return true;
  }
}

bool all_finite(const Communicator& communicator, const ParameterArena& arena) {
  bool finite = true;
  for (std::size_t bucket = 0; finite && bucket < arena.buckets(); ++bucket)
    finite = is_finite(arena.flat_gradients(bucket));
  return all_reduce_value(communicator, std::int32_t{finite ? 1 : 0}, ReduceOp::min) == 1;
}

FiniteCheck::FiniteCheck(Communicator communicator, std::shared_ptr<const ParameterArena> arena,
                         const FiniteCheckOptions& options)
    : communicator_(std::move(communicator)), arena_(std::move(arena)), options_(options) {}

bool FiniteCheck::may_step(std::int64_t step, double loss) {
  if (std::isfinite(loss) && all_finite(communicator_, *arena_)) {
    in_a_row_ = 0;
    return true;
  }
  const bool goes_on = options_.policy == NonFinite::skip && in_a_row_ < options_.most_in_a_row;
  if (!goes_on) {
    const std::string skipped =
        in_a_row_ > 0
            ? fmt::format(", and {} steps before it were skipped for the same reason", in_a_row_)
            : "";
    throw Error(
        fmt::format("parallel: step {}: {}{}; a smaller learning rate or gradient clipping may "
                    "help, and so may "
                    "a look at the samples of this step",
                    step, problem(loss), skipped));
  }
  ++in_a_row_;
  ++skipped_;
  return false;
}

// Collective.
std::string FiniteCheck::problem(double loss) const {
  const std::string parameters = where();
  if (parameters.empty()) return fmt::format("the loss is {}", loss);
  return fmt::format("gradients are infinite or not a number: {}", parameters);
}

// Collective.
std::string FiniteCheck::where() const {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const auto parameters = arena_->parameters().size();
  std::vector<std::uint8_t> mine(parameters), gathered(parameters * ranks);
  for (std::size_t index = 0; index < parameters; ++index)
    mine[index] = is_finite(arena_->gradient_view(index)) ? 0 : 1;
  communicator_.all_gather(std::span<const std::uint8_t>(mine), std::span(gathered),
                           {.name = "where gradients are not finite"});
  parallel::NamedParameters named;
  for (std::size_t index = 0; index < parameters; ++index) {
    std::vector<std::size_t> on;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (gathered[rank * parameters + index] != 0) on.push_back(rank);
    }
    if (!on.empty()) named.add(arena_->plan().parameters[index].names(), on);
  }
  return named.text();
}

}  // namespace kolo
