#pragma once

#include <cstdint>
#include <vector>

namespace kolo {

// Treatment of the samples that are left when the ranks don't divide the dataset.
enum class Padding {
  repeat,  // samples from the order's start are drawn again, so that every rank gets ceil(N / R):
           // for training
  drop,    // nobody draws them; every rank gets floor(N / R)
  none,    // the first ranks draw one more, so that every sample is drawn exactly once over all
           // ranks: for validation
};

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on every rank
  Padding padding = Padding::repeat;
};

// Samples that one of several ranks draws in an epoch, in the order of PyTorch's DistributedSampler
// (padding drop is its drop_last; it has no none). All ranks share one order, shuffled by (seed +
// epoch); rank r of R takes every R-th sample from the r-th on. A dataset may be smaller than the
// number of ranks.
//
// The position counts the samples that all ranks together have drawn in this epoch, if each asks
// for the same counts in the same order. An epoch can start at a saved position with any number of
// ranks, which share the remaining samples; with the same number each rank draws exactly the
// samples that it would have drawn.
//
// A sampler may stand for several consecutive ranks, whose samples it draws one rank after another:
// virtual ranks (kolo/layout/virtual_ranks.h).
class DistributedSampler {
 public:
  // Draws for the ranks from `rank` on, `count` of them. InputError for a dataset of more than
  // 2^32 - 1 samples; Error unless 0 <= rank < rank + count <= ranks and dataset_size >= 0.
  DistributedSampler(std::int64_t dataset_size, int rank, int ranks, SamplerOptions options = {},
                     int count = 1);

  [[nodiscard]] std::int64_t dataset_size() const { return dataset_size_; }
  [[nodiscard]] int ranks_here() const { return count_; }
  // Number of samples that this rank (the first of several here, which has the most) draws in an
  // epoch that starts at `position`.
  [[nodiscard]] std::int64_t length(std::int64_t position = 0) const;

  // Must be called before anything is drawn. Takes O(dataset_size).
  void start_epoch(std::int64_t epoch, std::int64_t position = 0);
  // Draws the next `count` samples of this rank, or of each rank here, one rank after another;
  // fewer at the end of the epoch, none after it.
  [[nodiscard]] std::vector<std::int64_t> next(std::int64_t count);
  // Number of samples of each rank here among those that next(count) will draw.
  [[nodiscard]] std::vector<std::int64_t> part_sizes_of_next(std::int64_t count) const;
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  [[nodiscard]] std::int64_t position() const { return position_; }

 private:
  // Position after all ranks have drawn `count` samples each.
  [[nodiscard]] std::int64_t position_after(std::int64_t count) const;
  // Samples of one rank between the position and `after`.
  [[nodiscard]] std::int64_t samples_until(std::int64_t after, int rank) const;
  // End of the ranks' common order, padding included, in an epoch that starts at `position`.
  [[nodiscard]] std::int64_t end_from(std::int64_t position) const;

  std::int64_t dataset_size_;
  int rank_;
  int ranks_;
  int count_;
  SamplerOptions options_;
  std::vector<std::int64_t> order_;  // of the whole dataset, in this epoch
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace kolo
