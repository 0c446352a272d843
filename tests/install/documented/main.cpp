// Runs the loops of docs/library/training-loops.md: each block is included as it stands there, between what the
// page takes for granted (a network, a loader, a loss). Every loop has to bring the loss down and
// leave the same network on all ranks.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "include.inc"
#include "kolo/comm/session.h"

using torch::optim::SGD;
using torch::optim::SGDOptions;

#include "batch_norm.inc"
#include "hook.inc"

namespace {

struct Batch {
  torch::Tensor data, target;
};
using Loader = std::unique_ptr<std::vector<Batch>>;

const SGDOptions options(0.05);

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

torch::nn::Sequential make_network(int outputs = 1) {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(2, 8), torch::nn::Tanh(),
                               torch::nn::Linear(8, outputs));
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

// Everything that a block takes for granted, and what has to hold after it.
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

// Batch norms over all ranks, held by type; one draws, so does the other rank: other numbers.
void block_of_a_module(const kolo::Communicator& world) {
  Block block(world.split(0).value());
#include "seed.inc"
  const auto outputs = block.norm->forward(torch::randn({8, 64, 3, 3}));
  const double mean = kolo::average(world, outputs.mean().item<double>());
  const auto draw = static_cast<double>(augmentation() >> 12);
  const bool are_apart = kolo::all_reduce_value(world, draw, kolo::ReduceOp::min) <
                         kolo::all_reduce_value(world, draw, kolo::ReduceOp::max);
  if (std::abs(mean) > 1e-4 || (world.size() > 1 && !are_apart)) ++failures;
}

// Each rank has some of the layers.
void share_layers(const kolo::Communicator& world) {
  auto network = make_network();
  const auto inputs = make_loader(0, 2)->at(0).data.repeat({2, 1});
  const auto targets = 3 * inputs.slice(1, 0, 1) - 2 * inputs.slice(1, 1, 2);
  const std::int64_t steps = 400;
  torch::Tensor loss = torch::zeros({});
#include "pipeline.inc"
  if (!(loss.item<double>() < .1)) ++failures;
  if (pipeline.is_last()) std::printf("pipeline: loss %.4f\n", loss.item<double>());
}

// Each rank sends its numbers to the next.
void pass_on(const kolo::Communicator& world) {
  if (world.size() == 1) return;
#include "transfers.inc"
  if (theirs.back() != static_cast<float>(before)) ++failures;
}

// The discriminator has to tell points apart afterwards.
void two_networks_learn(const kolo::Communicator& world) {
  const int batch = 16, noise = 2;
  auto generator = make_network(2), discriminator = make_network();
  kolo::seed_ranks(world, 1);
  kolo::DistributedOptimizer generator_optimizer(world, *generator,
                                                 SGD(generator->parameters(), options));
  kolo::DistributedOptimizer discriminator_optimizer(world, *discriminator,
                                                     SGD(discriminator->parameters(), options));
  const auto real_points = [](int count) { return 2 + torch::rand({count, 2}); };
  const auto is_real = torch::ones({batch, 1}), is_fake = torch::zeros({batch, 1});
  const auto loss_of = [](const torch::Tensor& answers, const torch::Tensor& truth) {
    return torch::binary_cross_entropy_with_logits(answers, truth);
  };
  for (int step = 0; step < 10; ++step) {
#include "gan.inc"
  }
  const auto answer = discriminator->forward(real_points(batch)).mean() -
                      discriminator->forward(torch::zeros({batch, 2})).mean();
  if (!(answer.item<double>() > 0)) ++failures;
}

void actor_and_critic(const kolo::Communicator& world) {
  const auto actor = make_network().ptr(), critic = make_network().ptr();
#include "trained_modules.inc"
  (actor->forward(torch::ones({1, 2})) + critic->forward(torch::ones({1, 2})) + log_alpha)
      .sum()
      .backward();
  optimizer.step();
  if (!(log_alpha.item<double>() < 0)) ++failures;
}

void inside_a_simulation(int size) {
  MPI_Comm simulation_communicator = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &simulation_communicator);
#include "session.inc"
  MPI_Comm_free(&simulation_communicator);
  if (energy.item<double>() != size * (size + 1) / 2.) ++failures;
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
  run("clip", world, [&](auto& network, const Loader& loader, Loss& loss_of) {
    kolo::DistributedOptimizer optimizer(world, *network, SGD(network->parameters(), options));
    for (auto& batch : *loader) {
#include "clip.inc"
      if (!(norm > 0)) ++failures;
    }
  });
  run("loss_factor", world, [&](auto& network, const Loader& loader, Loss&) {
    kolo::DistributedOptimizer optimizer(world, *network, SGD(network->parameters(), options));
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      const auto outputs = network->forward(batch.data.narrow(0, 0, 8 + world.rank()));
      const auto targets = batch.target.narrow(0, 0, 8 + world.rank());
#include "loss_factor.inc"
      optimizer.step();
    }
  });
  actor_and_critic(world);
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
  run("sharded", world, [&](auto& network, const Loader& loader, Loss& loss_of) {
#include "sharded.inc"
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      loss_of(batch).backward();
      optimizer.step();
    }
  });
  two_networks_learn(world);
  block_of_a_module(world);
  share_layers(world);
  pass_on(world);
  inside_a_simulation(world.size());
  return failures == 0 ? 0 : 1;
}
