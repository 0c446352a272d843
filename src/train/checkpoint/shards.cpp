#include "kolo/train/checkpoint/shards.h"

#include <algorithm>
#include <numeric>

namespace kolo {

int choose_shards(std::uint64_t bytes, int ranks) {
  const auto whole = bytes / bytes_of_a_shard;
  const auto most = static_cast<std::uint64_t>(std::clamp(ranks, 1, most_shards));
  return static_cast<int>(std::clamp<std::uint64_t>(whole, 1, most));
}

std::vector<int> plan_shards(std::span<const std::uint64_t> bytes, int shards,
                             std::uint64_t first) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::uint64_t> load(static_cast<std::size_t>(std::max(shards, 1)), 0);
  load.front() = first;
  std::vector<int> plan(bytes.size(), 0);
  for (const auto index : order) {
    const auto least = std::ranges::min_element(load);
    *least += bytes[index];
    plan[index] = static_cast<int>(least - load.begin());
  }
  return plan;
}

}  // namespace kolo
