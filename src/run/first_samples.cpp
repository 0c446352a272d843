#include "run/first_samples.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/parallel/broadcast_state.h"

namespace kolo {

namespace {

torch::Tensor read_first(const Dataset& dataset, std::int64_t count) {
  const auto& layout = dataset.layout();
  std::vector<std::int64_t> shape{count};
  shape.insert(shape.end(), layout.input_shape.begin(), layout.input_shape.end());
  auto samples = torch::empty(shape);
  std::vector<float> target(layout.classes > 0 ? 0
                                               : static_cast<std::size_t>(layout.target_size()));
  std::int64_t label = 0;
  const auto size = static_cast<std::size_t>(layout.input_size());
  for (std::int64_t index = 0; index < count; ++index) {
    const auto input = samples[index];
    dataset.read(index, 0,
                 {std::span(input.data_ptr<float>(), size),
                  layout.classes > 0 ? std::span(&label, 1) : std::span<std::int64_t>(), target});
  }
  return samples;
}

}  // namespace

void show_first_samples(const Communicator& communicator, const Dataset& training,
                        Network& network) {
  const auto wanted = std::min(network.first_samples(), training.size());
  if (wanted == 0) return;
  if (communicator.rank() == 0) network.begin_with(read_first(training, wanted));
  broadcast_parameters(communicator, network);
  broadcast_buffers(communicator, network);
}

}  // namespace kolo
