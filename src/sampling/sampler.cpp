#include "kolo/sampling/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// The order of torch.randperm under a CPU generator seeded with `seed`, whose engine keeps the
// seed's low 32 bits.
void shuffle(std::vector<std::int64_t>& order, std::uint64_t seed) {
  std::mt19937 engine(static_cast<std::uint32_t>(seed));
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    std::swap(order[i], order[i + engine() % (order.size() - i)]);
  }
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, int rank, int ranks,
                                       SamplerOptions options, int count)
    : dataset_size_(dataset_size), rank_(rank), ranks_(ranks), count_(count), options_(options) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw Error(fmt::format("sampler: rank {} of {}, expected 0 <= rank < ranks", rank, ranks));
  }
  if (count < 1 || count > ranks - rank) {
    throw Error(fmt::format("sampler: {} ranks from rank {} of {} on, expected 1 to {}", count,
                            rank, ranks, ranks - rank));
  }
  if (dataset_size < 0) {
    throw Error(fmt::format("sampler: a dataset of {} samples, expected 0 or more", dataset_size));
  }
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  if (dataset_size > most) {
    throw InputError(
        fmt::format("sampler: a dataset of {} samples, expected at most {}", dataset_size, most));
  }
}

std::int64_t DistributedSampler::end_from(std::int64_t position) const {
  const auto left = dataset_size_ - position;
  if (left <= 0) return position;  // the epoch is over, whatever was padded to reach this position
  switch (options_.padding) {
    case Padding::repeat:
      return position + divide_up(left, ranks_) * ranks_;
    case Padding::drop:
      return position + left / ranks_ * ranks_;
    case Padding::none:
      break;
  }
  return dataset_size_;
}

std::int64_t DistributedSampler::length(std::int64_t position) const {
  const auto mine = end_from(position) - position - rank_;
  return mine <= 0 ? 0 : divide_up(mine, ranks_);
}

void DistributedSampler::start_epoch(std::int64_t epoch, std::int64_t position) {
  if (epoch < 0 || position < 0) {
    throw Error(
        fmt::format("sampler: epoch {} at position {}, expected 0 or more", epoch, position));
  }
  order_.resize(static_cast<std::size_t>(dataset_size_));
  std::iota(order_.begin(), order_.end(), 0);
  if (options_.shuffle) shuffle(order_, options_.seed + static_cast<std::uint64_t>(epoch));
  epoch_ = epoch;
  position_ = position;
  end_ = end_from(position);
}

std::int64_t DistributedSampler::position_after(std::int64_t count) const {
  if (count < 0) throw Error(fmt::format("sampler: asked for {} samples", count));
  // The division keeps a huge count from overflowing.
  const auto rounds = std::min(count, (end_ - position_ + ranks_ - 1) / ranks_);
  return std::min(position_ + rounds * ranks_, end_);
}

std::int64_t DistributedSampler::samples_until(std::int64_t after, int rank) const {
  return (after - position_ - rank + ranks_ - 1) / ranks_;
}

std::vector<std::int64_t> DistributedSampler::part_sizes_of_next(std::int64_t count) const {
  const auto after = position_after(count);
  std::vector<std::int64_t> sizes;
  for (int rank = rank_; rank < rank_ + count_; ++rank) sizes.push_back(samples_until(after, rank));
  return sizes;
}

std::vector<std::int64_t> DistributedSampler::next(std::int64_t count) {
  const auto after = position_after(count);
  std::vector<std::int64_t> samples;
  samples.reserve(static_cast<std::size_t>(samples_until(after, rank_) * count_));
  for (int rank = rank_; rank < rank_ + count_; ++rank) {
    for (auto drawn = position_ + rank; drawn < after; drawn += ranks_)
      samples.push_back(order_[static_cast<std::size_t>(drawn % dataset_size_)]);
  }
  position_ = after;
  return samples;
}

}  // namespace kolo
