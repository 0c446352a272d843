// Runs the loops of docs/library.md: each block is included as it stands there, between what the
// page takes for granted (a network, a loader, a loss). Every loop has to bring the loss down and
// leave the same network on all ranks.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "include.inc"

using torch::optim::SGD;
using torch::optim::SGDOptions;

#include "hook.inc"

namespace {

struct Batch {
  torch::Tensor data, target;
};
using Loader = std::unique_ptr<std::vector<Batch>>;

const SGDOptions options(0.1);

// y = 3 x1 - 2 x2, of which each rank has other samples.
Loader make_loader(int rank, int batches) {
  torch::manual_seed(10 + rank);
  auto loader = std::make_unique<std::vector<Batch>>();
  for (int i = 0; i < batches; ++i) {
    const auto data = torch::rand({16, 2});
    loader->push_back({data, 3 * data.slice(1, 0, 1) - 2 * data.slice(1, 1, 2)});
  }
  return loader;
}

torch::nn::Sequential make_network() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(2, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
}

struct Loss {
  torch::nn::Sequential network;
  const Loader& loader;
  torch::Tensor operator()(const Batch& batch) {
    return torch::mse_loss(network->forward(batch.data), batch.target);
  }
  torch::Tensor operator()(int part) { return (*this)(loader->at(part)); }
};

int failures = 0;

// Everything that a block takes for granted, and what has to hold behind it.
void run(const std::string& name, const kolo::Communicator& world,
         const std::function<void(torch::nn::Sequential&, const Loader&, Loss&)>& block,
         int batches = 60) {
  auto network = make_network();
  const auto loader = make_loader(world.rank(), batches);
  Loss loss_of{network, loader};
  const double before = kolo::average(world, loss_of(0).item<double>());
  block(network, loader, loss_of);
  const double after = kolo::average(world, loss_of(0).item<double>());
  bool is_same = true;
  for (const auto& parameter : network->parameters()) {
    const auto sum = parameter.detach().to(torch::kFloat64).sum().item<double>();
    is_same = is_same && kolo::all_reduce_value(world, sum, kolo::ReduceOp::min) ==
                             kolo::all_reduce_value(world, sum, kolo::ReduceOp::max);
  }
  const bool is_good = is_same && after < before;
  failures += is_good ? 0 : 1;
  if (world.rank() == 0) {
    std::printf("%s: loss %.4f, then %.4f%s\n", name.c_str(), before, after,
                is_good   ? ""
                : is_same ? ", WHICH IS NOT LESS"
                          : ", NOT THE SAME ON ALL RANKS");
  }
}

void join_with_fewer_batches(torch::nn::Sequential& network, const Loader& loader, Loss& loss_of) {
#include "join.inc"
}

}  // namespace

int main() {
  const auto world = kolo::initialize();
  kolo::pin_device(world);
  run("reducer", world, [&](auto& network, const Loader& loader, Loss& loss_of) {
    SGD optimizer(network->parameters(), options);
#include "reducer.inc"
  });
  run("no_sync", world, [&](auto& network, const Loader&, Loss& loss_of) {
    kolo::DistributedOptimizer optimizer(world, *network, SGD(network->parameters(), options));
    const int parts = 4;
    for (int step = 0; step < 10; ++step) {
#include "no_sync.inc"
    }
  });
  run("hook", world, [&](auto& network, const Loader& loader, Loss& loss_of) {
    const auto hook = std::make_shared<Halves>();
    kolo::DistributedOptimizer optimizer(world, *network, SGD(network->parameters(), options),
                                         {.reducer = {.hook = hook}});
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      loss_of(batch).backward();
      optimizer.step();
    }
    if (world.size() > 1 && hook->bytes_sent() == 0) ++failures;
  });
  run("timeline", world, [&](auto& network, const Loader& loader, Loss& loss_of) {
    kolo::DistributedOptimizer optimizer(world, *network, SGD(network->parameters(), options));
#include "timeline.inc"
  });
  run("join", world, join_with_fewer_batches, 40 + 20 * (world.rank() % 2));
  return failures == 0 ? 0 : 1;
}
