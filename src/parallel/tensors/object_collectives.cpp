#include "kolo/parallel/object_collectives.h"

#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

// Sum of the ranks' weights. Error on all ranks for a weight that is negative or not finite.
// `function`: named in the Error.
double sum_of_weights(const Communicator& communicator, std::string_view function, double weight,
                      const CallOptions& call) {
  const bool is_valid = std::isfinite(weight) && weight >= 0;
  enum { valid_weights, offenders, ranks, weights, n_sums };
  std::array<double, n_sums> sums{};
  if (is_valid)
    sums[valid_weights] = weight;
  else
    sums = {0, 1, static_cast<double>(communicator.rank()), weight};
  communicator.all_reduce(std::span(sums), ReduceOp::sum, call);
  if (sums[offenders] == 0) return sums[valid_weights];
  // Sums over one rank are its number and its weight.
  const auto who =
      sums[offenders] == 1
          ? fmt::format("rank {} passed the weight {}", sums[ranks], sums[weights])
          : fmt::format("{} ranks passed a weight that is negative or not finite{}",
                        sums[offenders], is_valid ? "" : fmt::format(", this one {}", weight));
  throw InputError(fmt::format(
      "parallel: {}: {}; expected the number of samples, or any other finite number of at least 0",
      function, who));
}

}  // namespace

std::string broadcast_bytes(const Communicator& communicator, std::string_view bytes, int root,
                            CallOptions call) {
  auto length = narrow<std::int64_t>(bytes.size());
  communicator.broadcast(std::span(&length, 1), root, call);
  std::string result = communicator.rank() == root
                           ? std::string(bytes)
                           : std::string(static_cast<std::size_t>(length), '\0');
  communicator.broadcast(Buffer(result.data(), length, DataType::uint8), root, std::move(call));
  return result;
}

std::vector<std::string> all_gather_bytes(const Communicator& communicator, std::string_view bytes,
                                          CallOptions call) {
  const auto mine = narrow<std::int64_t>(bytes.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(lengths), call);
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) total = checked_add(total, length);
  std::string all(static_cast<std::size_t>(total), '\0');
  communicator.all_gather_uneven(ConstBuffer(bytes.data(), mine, DataType::uint8),
                                 Buffer(all.data(), total, DataType::uint8), lengths,
                                 std::move(call));
  std::vector<std::string> by_rank;
  std::size_t begin = 0;
  for (const std::int64_t length : lengths) {
    by_rank.push_back(all.substr(begin, static_cast<std::size_t>(length)));
    begin += static_cast<std::size_t>(length);
  }
  return by_rank;
}

double average(const Communicator& communicator, double value, double weight, CallOptions call) {
  return average(communicator, torch::tensor(value, torch::kDouble), weight, std::move(call))
      .item<double>();
}

torch::Tensor average(const Communicator& communicator, const torch::Tensor& values, double weight,
                      CallOptions call) {
  const torch::NoGradGuard no_gradient;
  const auto type = values.scalar_type();
  if (!torch::isFloatingType(type)) {
    throw Error(
        fmt::format("parallel: average: a tensor of {} has no mean; convert it to a floating dtype",
                    torch::toString(type)));
  }
  const double total = sum_of_weights(communicator, "average", weight, call);
  // Float64: a value times its weight could overflow in a smaller dtype.
  torch::Tensor sum = torch::zeros(values.sizes(), values.options().dtype(torch::kDouble));
  if (weight > 0) sum.add_(values.detach().to(torch::kDouble), weight);
  communicator.all_reduce(buffer_of(sum), ReduceOp::sum, std::move(call));
  return sum.div_(total).to(type);
}

double loss_factor(const Communicator& communicator, double weight, CallOptions call) {
  const double total = sum_of_weights(communicator, "loss_factor", weight, std::move(call));
  return total > 0 ? weight * communicator.active_ranks() / total : 0;
}

torch::Tensor average_loss(const Communicator& communicator, const torch::Tensor& loss) {
  if (!loss.defined() || loss.numel() != 1) {
    throw Error(
        "parallel: an optimizer's closure returned no loss; it must call backward() and return the "
        "loss, a tensor of one value, on every rank");
  }
  return torch::full_like(loss.detach(),
                          all_reduce_value(communicator, loss.item<double>(), ReduceOp::average));
}

}  // namespace kolo
