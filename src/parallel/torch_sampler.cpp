#include "kolo/parallel/torch_sampler.h"

#include <torch/serialize.h>

#include "kolo/base/checked.h"

namespace kolo {

struct TorchSampler::State {
  int rank = 0;
  int ranks = 1;
  SamplerOptions options;
  DistributedSampler sampler;
  bool is_placed = false;  // the next reset() starts the epoch given, not the one after the last
  std::int64_t epoch = 0;
  std::int64_t position = 0;
  bool has_begun = false;

  void start(std::int64_t new_epoch, std::int64_t new_position) {
    sampler.start_epoch(new_epoch, new_position);
    has_begun = true;
  }
};

TorchSampler::TorchSampler(std::size_t dataset_size, const Communicator& communicator,
                           const SamplerOptions& options)
    : TorchSampler(dataset_size, communicator.rank(), communicator.size(), options) {}

TorchSampler::TorchSampler(std::size_t dataset_size, int rank, int ranks,
                           const SamplerOptions& options)
    : state_(std::make_shared<State>(
          State{.rank = rank,
                .ranks = ranks,
                .options = options,
                .sampler = {narrow<std::int64_t>(dataset_size), rank, ranks, options}})) {}

void TorchSampler::reset(torch::optional<std::size_t> new_size) {
  State& state = *state_;
  const auto next_epoch = state.is_placed   ? state.epoch
                          : state.has_begun ? state.sampler.epoch() + 1
                                            : 0;
  const auto position = state.is_placed ? state.position : 0;
  if (new_size) {
    state.sampler = {narrow<std::int64_t>(*new_size), state.rank, state.ranks, state.options};
  }
  state.is_placed = false;
  state.start(next_epoch, position);
}

torch::optional<std::vector<std::size_t>> TorchSampler::next(std::size_t batch_size) {
  if (!state_->has_begun) reset();
  const auto samples = state_->sampler.next(narrow<std::int64_t>(batch_size));
  if (samples.empty()) return {};
  return std::vector<std::size_t>(samples.begin(), samples.end());
}

void TorchSampler::set_epoch(std::int64_t epoch, std::int64_t position) {
  if (epoch < 0 || position < 0) {
    throw Error(fmt::format("parallel: sampler: epoch {} at position {}, expected 0 or more", epoch,
                            position));
  }
  state_->is_placed = true;
  state_->epoch = epoch;
  state_->position = position;
}

std::int64_t TorchSampler::epoch() const {
  return state_->sampler.epoch();
}

std::int64_t TorchSampler::position() const {
  return state_->sampler.position();
}

std::int64_t TorchSampler::length(std::int64_t position) const {
  return state_->sampler.length(position);
}

void TorchSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", torch::tensor(epoch(), torch::kLong), /*is_buffer=*/true);
  archive.write("position", torch::tensor(position(), torch::kLong), /*is_buffer=*/true);
}

void TorchSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor epoch, position;
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("position", position, /*is_buffer=*/true);
  set_epoch(epoch.item<std::int64_t>(), position.item<std::int64_t>());
  state_->start(state_->epoch, state_->position);
}

}  // namespace kolo
