// A training loop over LibTorch, made data-parallel with kolo: every rank sees other samples, and
// all end with the same line, y = 3 x - 1.
#include <cstdio>
#include <memory>

// Before LibTorch's: they have to include what they need themselves.
#include "kolo/comm/mpi.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/gradient_reducer.h"

#include <torch/nn/modules/linear.h>

int main() {
  const auto communicator = kolo::mpi_communicator();
  torch::manual_seed(1 + communicator.rank());
  torch::nn::Linear model(1, 1);

  const auto arena = std::make_shared<kolo::ParameterArena>(communicator, *model);
  arena->broadcast_parameters(communicator);
  kolo::GradientReducer reducer(communicator, arena);
  kolo::ArenaOptimizer optimizer(arena, kolo::make_sgd({.momentum = .5}));

  for (int step = 1; step <= 100; ++step) {
    const auto x = torch::rand({16, 1}) * 4 - 2;
    reducer.clear_gradients();
    torch::mse_loss(model->forward(x), 3 * x - 1).backward();
    for (std::size_t bucket = 0; bucket < arena->buckets(); ++bucket) {
      reducer.wait(bucket);
      optimizer.update(bucket, .1, step);
    }
    reducer.finish();
  }

  const float slope = model->weight.item<float>(), intercept = model->bias.item<float>();
  const bool same = kolo::all_reduce_value(communicator, slope, kolo::ReduceOp::min) ==
                    kolo::all_reduce_value(communicator, slope, kolo::ReduceOp::max);
  if (communicator.rank() == 0) {
    std::printf("%d ranks: y = %.3f x %+.3f%s\n", communicator.size(), slope, intercept,
                same ? "" : ", but not on all of them");
  }
  return same ? 0 : 1;
}
