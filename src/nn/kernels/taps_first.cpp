#include "nn/kernels/taps_first.h"

#include <numeric>
#include <vector>

namespace kolo {

namespace {

std::vector<std::int64_t> order_of(const torch::Tensor& weight) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(weight.dim()));
  std::iota(order.begin(), order.end() - 2, 2);
  order[order.size() - 2] = 1;
  order[order.size() - 1] = 0;
  return order;
}

}  // namespace

torch::Tensor taps_first(const torch::Tensor& weight) {
  const auto order = order_of(weight);
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return weight.permute(order).contiguous().permute(back);
}

bool is_taps_first(const torch::Tensor& weight) {
  return weight.permute(order_of(weight)).is_contiguous();
}

}  // namespace kolo
