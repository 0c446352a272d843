#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <torch/data/samplers/base.h>
#include <torch/serialize.h>

#include "kolo/comm/communicator.h"
#include "kolo/sampling/sampler.h"

namespace kolo {

// DistributedSampler for torch::data:
//
//   kolo::TorchSampler sampler(dataset.size().value(), communicator);
//   auto loader = torch::data::make_data_loader(std::move(dataset), sampler, 64);
//   for (int epoch = 0; epoch < epochs; ++epoch) for (auto& batch : *loader) ...
//
// A cheap handle: the copy that a loader keeps and the user's own have one state. Each reset(),
// which a loader does when an iteration over it begins, starts the next epoch, from 0 on, and with
// it another order. Used from one thread, as a loader does.
class TorchSampler : public torch::data::samplers::Sampler<> {
 public:
  // Errors as DistributedSampler's. The seed is the same on every rank.
  TorchSampler(std::size_t dataset_size, const Communicator& communicator,
               const SamplerOptions& options = {});
  TorchSampler(std::size_t dataset_size, int rank, int ranks, const SamplerOptions& options = {});

  // Starts the next epoch, or the one that set_epoch() or load() has named. A new size is that of
  // the dataset from now on.
  void reset(torch::optional<std::size_t> new_size = {}) override;

  // This rank's next samples: fewer than asked for at the end of an epoch, nothing after it.
  torch::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  // The next reset() starts this epoch at this position, instead of the one it would have.
  void set_epoch(std::int64_t epoch, std::int64_t position = 0);

  [[nodiscard]] std::int64_t epoch() const;
  // Number of samples that all ranks together have drawn in this epoch, if each draws as this one.
  // A loader with workers draws ahead, up to its max_jobs batches: what has been trained then is
  // not this, but the start position + batches done * batch size * ranks.
  [[nodiscard]] std::int64_t position() const;
  // Number of samples that this rank draws in an epoch that starts at `position`.
  [[nodiscard]] std::int64_t length(std::int64_t position = 0) const;

  // Epoch and position. A sampler that has been loaded goes on there, whether it is asked for
  // samples next or reset first (as a new loader does); also with another number of ranks.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kolo
