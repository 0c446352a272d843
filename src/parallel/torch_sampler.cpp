#include "kolo/parallel/torch_sampler.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

struct TorchSampler::State {
  int rank = 0;
  int ranks = 1;
  SamplerOptions options;
  DistributedSampler sampler;
  bool has_begun = false;
  // Epoch and position that the next reset() starts, instead of the epoch after the last.
  std::optional<std::pair<std::int64_t, std::int64_t>> next = std::nullopt;
};

namespace {

// InputError that names what the count is of; a negative number has become a huge one.
std::int64_t count_of(const char* what, std::size_t count) {
  if (std::in_range<std::int64_t>(count)) return static_cast<std::int64_t>(count);
  throw InputError(fmt::format(
      "parallel: TorchSampler: {} is {} ({} before it became unsigned); expected 0 or more", what,
      count, static_cast<std::int64_t>(count)));
}

}  // namespace

TorchSampler::TorchSampler(std::size_t dataset_size, const Communicator& communicator,
                           const SamplerOptions& options)
    : TorchSampler(dataset_size, communicator.rank(), communicator.size(), options) {}

TorchSampler::TorchSampler(std::size_t dataset_size, int rank, int ranks,
                           const SamplerOptions& options)
    : state_(std::make_shared<State>(State{
          .rank = rank,
          .ranks = ranks,
          .options = options,
          .sampler = {count_of("the size of the dataset", dataset_size), rank, ranks, options}})) {}

void TorchSampler::reset(torch::optional<std::size_t> new_size) {
  State& state = *state_;
  const auto [epoch, position] = std::exchange(state.next, std::nullopt)
                                     .value_or(std::pair<std::int64_t, std::int64_t>(
                                         state.has_begun ? state.sampler.epoch() + 1 : 0, 0));
  if (new_size) {
    state.sampler = {count_of("the size of the dataset", *new_size), state.rank, state.ranks,
                     state.options};
  }
  state.sampler.start_epoch(epoch, position);
  state.has_begun = true;
}

torch::optional<std::vector<std::size_t>> TorchSampler::next(std::size_t batch_size) {
  if (!state_->has_begun) reset();
  const auto samples = state_->sampler.next(count_of("the size of a batch", batch_size));
  if (samples.empty()) return {};
  return std::vector<std::size_t>(samples.begin(), samples.end());
}

void TorchSampler::set_epoch(std::int64_t epoch, std::int64_t position) {
  if (epoch < 0 || position < 0) {
    throw Error(fmt::format("parallel: sampler: epoch {} at position {}, expected 0 or more", epoch,
                            position));
  }
  state_->next = {epoch, position};
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
  state_->sampler.start_epoch(state_->next->first, state_->next->second);
  state_->has_begun = true;
}

}  // namespace kolo
