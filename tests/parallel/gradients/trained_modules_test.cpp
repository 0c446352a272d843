#include "kolo/parallel/trained_modules.h"

#include <vector>

#include "kolo/base/error.h"
#include "parallel/optimizers/sgd_of.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// Two networks and a tensor that belongs to none.
struct ActorAndCritic {
  std::shared_ptr<SmallNetwork> actor = std::make_shared<SmallNetwork>(7, 1);
  std::shared_ptr<SmallNetwork> critic = std::make_shared<SmallNetwork>(4, 2);
  torch::Tensor log_alpha = torch::zeros({1}).requires_grad_();

  [[nodiscard]] TrainedModules modules() const { return {{actor, critic}, {log_alpha}}; }
  [[nodiscard]] std::vector<torch::Tensor> parameters() const {
    auto all = actor->parameters();
    for (const auto& each : critic->parameters()) all.push_back(each);
    all.push_back(log_alpha);
    return all;
  }
  [[nodiscard]] torch::Tensor loss(int rank, std::int64_t step) const {
    const auto input = samples_of(rank, step);
    return mean_loss(*actor, input) + log_alpha.exp().sum() * mean_loss(*critic, input);
  }
};

RANK_TEST(TrainedModules, SeveralAndTensorsAreTrainedAsOne) {
  for (const bool is_sharded : {false, true}) {
    ActorAndCritic together, reference;
    const auto optimizer =
        sgd_of(communicator, together.modules(), together.parameters(), .1, is_sharded);
    torch::optim::SGD sgd(reference.parameters(), .1);
    for (std::int64_t step = 0; step < 3; ++step) {
      optimizer->zero_grad();
      together.loss(communicator.rank(), step).backward();
      (void)optimizer->step();
      sgd.zero_grad();
      for (int rank = 0; rank < communicator.size(); ++rank)
        (reference.loss(rank, step) / communicator.size()).backward();
      sgd.step();
    }
    expect_parameters(together.modules().module(), reference.parameters(), 1e-4, 1e-6);
  }
}

RANK_TEST(TrainedModules, TensorsAloneAreTrained) {
  torch::Tensor image = torch::full({3, 4}, communicator.rank()).to(torch::kFloat).requires_grad_();
  DistributedOptimizer optimizer(communicator, std::vector<torch::Tensor>{image},
                                 torch::optim::SGD({image}, 1.));
  EXPECT_EQ(image.sum().item<float>(), 0);  // rank 0's
  (image * (communicator.rank() + 1)).sum().backward();
  optimizer.step();
  EXPECT_NEAR(image[1][1].item<double>(), -(communicator.size() + 1) / 2., 1e-6);
}

RANK_TEST(TrainedModules, NamesAndWrongTensors) {
  const ActorAndCritic together;
  const auto names = together.modules().module().named_parameters();
  EXPECT_TRUE(names.contains("0.first.weight"));
  EXPECT_TRUE(names.contains("1.second.bias"));
  EXPECT_TRUE(names.contains("tensors.0"));
  EXPECT_TRUE(says(message_of<Error>([] { TrainedModules(std::vector<torch::Tensor>{}); }),
                   {"no module and no tensor"}));
  const torch::Tensor result = torch::ones({2, 3}).requires_grad_() * 2;
  EXPECT_TRUE(says(message_of<Error>([&] { TrainedModules(std::vector<torch::Tensor>{result}); }),
                   {"tensor 0", "[2, 3] is the result of an operation"}));
}

}  // namespace

}  // namespace kolo::testing
