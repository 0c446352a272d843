#include "peers/per_tensor_all_reduce.h"

#include <utility>

#include <torch/optim/adam.h>

#include "comm/mpi/mpi_calls.h"

namespace kolo::peers {

struct PerTensorAllReduce::State {
  MPI_Comm communicator;
  int ranks = 1;
  std::shared_ptr<TensorsNetwork> network;
  torch::optim::Adam optimizer;
};

PerTensorAllReduce::PerTensorAllReduce(MPI_Comm communicator,
                                       std::shared_ptr<TensorsNetwork> network)
    : state_(std::make_unique<State>(
          State{communicator, 1, network,
                torch::optim::Adam(network->parameters(), torch::optim::AdamOptions(1e-3))})) {
  check_mpi(MPI_Comm_size(communicator, &state_->ranks), "MPI_Comm_size");
  const torch::NoGradGuard no_gradient;
  for (auto& parameter : network->parameters()) {
    check_mpi(MPI_Bcast(parameter.data_ptr(), static_cast<int>(parameter.numel()), MPI_FLOAT, 0,
                        communicator),
              "MPI_Bcast");
  }
}

PerTensorAllReduce::~PerTensorAllReduce() = default;

float PerTensorAllReduce::train(std::span<const float> input, std::span<const float> target,
                                std::span<const std::int64_t> shape) {
  const auto tensor = [&](std::span<const float> values) {
    return torch::from_blob(const_cast<float*>(values.data()),
                            at::IntArrayRef(shape.data(), shape.size()));
  };
  const auto sum = [&](void* values, std::int64_t count) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                            state_->communicator),
              "MPI_Allreduce");
  };
  const auto batch = tensor(input);
  state_->network->train();
  const auto outputs = state_->network->forward(std::span(&batch, 1));
  const auto loss = torch::mse_loss(outputs.front(), tensor(target));
  auto value = loss.item<float>();
  state_->optimizer.zero_grad();
  loss.backward();
  for (const auto& parameter : state_->network->parameters()) {
    auto gradient = parameter.grad();
    sum(gradient.data_ptr(), gradient.numel());
    gradient /= state_->ranks;
  }
  sum(&value, 1);
  state_->optimizer.step();
  return value / static_cast<float>(state_->ranks);
}

}  // namespace kolo::peers
