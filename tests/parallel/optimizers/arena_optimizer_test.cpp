#include <functional>
#include <map>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/arena_optimizer.h"
#include "parallel/optimizers/replica.h"
#include "support/rank_test.h"

namespace kolo::testing {

namespace {

constexpr double rate = .02;  // of update_all()

// An optimizer over tensors one by one, with as many tensors of state as it likes.
using Reference = std::function<void(torch::Tensor& parameter, const torch::Tensor& gradient,
                                     std::vector<torch::Tensor>& state, std::int64_t step)>;

// One network that sees the samples of all ranks.
class ReferenceTraining {
 public:
  ReferenceTraining(int ranks, Reference reference)
      : ranks_(ranks), reference_(std::move(reference)) {
    network.to(torch::kDouble);
  }

  void train(std::int64_t step) {
    const auto count = std::int64_t{4} * ranks_;
    network.zero_grad();
    mean_loss(network, samples(step * count, (step + 1) * count, torch::kDouble)).backward();
    const torch::NoGradGuard no_gradient;
    for (const auto& item : network.named_parameters()) {
      auto& state = state_[item.key()];
      if (state.empty()) state = {torch::zeros_like(item.value()), torch::zeros_like(item.value())};
      torch::Tensor parameter = item.value();
      reference_(parameter, parameter.grad(), state, step + 1);
    }
  }

  SmallNetwork network{hidden};

 private:
  int ranks_;
  Reference reference_;
  std::map<std::string, std::vector<torch::Tensor>> state_;
};

void expect_same_training(const Communicator& communicator,
                          const std::shared_ptr<const FlatOptimizer>& algorithm,
                          const Reference& reference) {
  for (const BucketLimits& limits : {tiny, large}) {
    for (const auto type : {torch::kDouble, torch::kFloat}) {
      Replica replica(communicator, limits, type);
      ArenaOptimizer optimizer(replica.arena, algorithm);
      ReferenceTraining expected(communicator.size(), reference);
      for (std::int64_t step = 0; step < 5; ++step) {
        replica.backward(step);
        replica.all_reduce_gradients();
        update_all(optimizer, *replica.arena, step + 1);
        expected.train(step);
      }
      const double tolerance = type == torch::kDouble ? 1e-11 : 1e-4;
      for (const auto& item : expected.network.named_parameters()) {
        const torch::Tensor trained = replica.network.named_parameters()[item.key()];
        EXPECT_TRUE(trained.to(torch::kDouble).allclose(item.value(), tolerance, tolerance))
            << algorithm->name() << ", " << item.key();
      }
    }
  }
}

double norm_of(const torch::Tensor& tensor) {
  return tensor.square().sum().sqrt().item<double>();
}

RANK_TEST(ArenaOptimizer, LarsTakesWholeParameters) {
  for (const bool exclude : {true, false}) {
    expect_same_training(communicator,
                         make_lars({.momentum = .8,
                                    .weight_decay = .01,
                                    .trust_coefficient = .1,
                                    .exclude_vectors = exclude}),
                         [exclude](torch::Tensor& parameter, const torch::Tensor& gradient,
                                   std::vector<torch::Tensor>& state, std::int64_t) {
                           double local_rate = rate, decay = 0;
                           if (parameter.dim() > 1 || !exclude) {
                             decay = .01;
                             local_rate *= .1 * norm_of(parameter) /
                                           (norm_of(gradient) + .01 * norm_of(parameter));
                           }
                           state[0] = .8 * state[0] + local_rate * (gradient + decay * parameter);
                           parameter -= state[0];
                         });
  }
}

RANK_TEST(ArenaOptimizer, DecayMaySpareBiases) {
  for (const bool decoupled : {false, true}) {
    expect_same_training(communicator,
                         make_sgd({.momentum = .9,
                                   .weight_decay = .02,
                                   .decoupled_decay = decoupled,
                                   .decay_excludes_vectors = true}),
                         [decoupled](torch::Tensor& parameter, const torch::Tensor& gradient,
                                     std::vector<torch::Tensor>& state, std::int64_t) {
                           const double decay = parameter.dim() > 1 ? .02 : 0;
                           state[0] =
                               .9 * state[0] + gradient + (decoupled ? 0 : decay) * parameter;
                           if (decoupled) parameter *= 1 - rate * decay;
                           parameter -= rate * state[0];
                         });
  }
}

}  // namespace

}  // namespace kolo::testing
