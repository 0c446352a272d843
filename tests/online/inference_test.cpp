#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kolo/base/error.h"
#include "online/linear_task.h"
#include "online/tensor_array.h"
#include "support/errors.h"

namespace kolo::testing {
namespace {

// Network with two inputs, [N, 3] and [N, 2], and two outputs: a linear map and its square. Batch
// norm and dropout depend on the mode.
class TwoOfEach final : public TensorsNetwork {
 public:
  std::vector<torch::Tensor> forward(std::span<const torch::Tensor> inputs) override {
    const auto hidden = dropout_(norm_(linear_(torch::cat({inputs[0], inputs[1]}, 1))));
    return {hidden, hidden.square().sum(1, true)};
  }

 private:
  torch::nn::Linear linear_ = register_module("linear", torch::nn::Linear(5, 4));
  torch::nn::BatchNorm1d norm_ = register_module("norm", torch::nn::BatchNorm1d(4));
  torch::nn::Dropout dropout_ = register_module("dropout", torch::nn::Dropout(.5));
};

OnlineNetwork two_of_each() {
  OnlineComponents components;
  components.network = [] { return std::make_shared<TwoOfEach>(); };
  return OnlineNetwork(Communicator::solo(),
                       load_online_config("model: {name: own}\noptimizer: {name: sgd, lr: 0.01}\n"
                                          "training: {batch_size: 4, loss: mse}\n"),
                       components);
}

TEST(OnlineInference, NoNetworkIsRefused) {
  OnlineComponents components;
  components.network = [] { return nullptr; };
  const auto config = load_online_config("model: {name: own}\noptimizer: {name: sgd, lr: 0.01}\n");
  EXPECT_NE(message_of<InputError>([&] {
              const OnlineNetwork network(Communicator::solo(), config, components);
            }).find("OnlineComponents::network has returned a null pointer"),
            std::string::npos);
}

TEST(OnlineInference, TakesAndGivesSeveralTensors) {
  auto network = two_of_each();
  const auto a = torch::randn({8, 3}), b = torch::randn({2, 8}).t();
  auto first = torch::zeros({8, 4}), second = torch::zeros({8, 1});
  const auto compute = [&] {
    network.infer(std::vector{array_of(a), array_of(b)},
                  std::vector{array_of(first), array_of(second)});
  };
  compute();
  EXPECT_TRUE(torch::allclose(second, first.square().sum(1, true)));
  const auto before = first.clone();
  compute();  // no dropout, no running statistics
  EXPECT_TRUE(torch::equal(first, before));
  const auto x = torch::randn({16, 3}), y = torch::randn({16, 2});
  const auto u = torch::randn({16, 4}), v = torch::randn({16, 1});
  (void)network.train(std::vector{array_of(x), array_of(y)}, std::vector{array_of(u), array_of(v)});
  compute();
  EXPECT_FALSE(torch::equal(first, before));
}

TEST(OnlineInference, RefusesOutputsThatDontFit) {
  auto network = two_of_each();
  const auto a = torch::randn({8, 3}), b = torch::randn({8, 2});
  auto first = torch::zeros({8, 4}), wrong = torch::zeros({8, 2});
  const auto words = message_of<InputError>([&] {
    network.infer(std::vector{array_of(a), array_of(b)},
                  std::vector{array_of(first), array_of(wrong)});
  });
  EXPECT_EQ(
      words,
      "online: infer on rank 0: outputs[1]: it has room for 16 values (8 samples of [2]), but "
      "the network gives [8, 1]");
  EXPECT_NE(message_of<InputError>([&] {
              network.infer(std::vector{array_of(a), array_of(b)}, std::vector{array_of(first)});
            }).find("they are 1 tensors, but the network gives 2"),
            std::string::npos);
}

TEST(OnlineInference, RefusesOutputsThatShareElements) {
  auto network = two_of_each();
  const auto a = torch::randn({8, 3}), b = torch::randn({8, 2});
  auto first = torch::zeros({8, 4}), second = torch::zeros({1, 1});
  const auto words = message_of<InputError>([&] {
    network.infer(std::vector{array_of(a), array_of(b)},
                  std::vector{array_of(first), array_of(second.expand({8, 1}))});
  });
  EXPECT_NE(words.find("outputs[1]: its stride 0 is 0 over 8 elements"), std::string::npos)
      << words;
}

// Infers while another thread trains: each answer is that of one version.
TEST(OnlineInference, IsThreadSafe) {
  OnlineNetwork network(Communicator::solo(), testing::linear_config());
  std::mt19937 random(1);
  testing::Cells cells(random, 64);
  network.push(cells.inputs(), cells.targets());
  std::atomic<bool> ends = false;
  std::atomic<int> answers = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!ends) {
        // A linear map: f(0) + f(2 x) = 2 f(x), whatever the weights are, unless they change.
        double a[] = {0, .3, .6}, b[] = {0, -.2, -.4}, y[3] = {};
        network.infer(std::vector{Array(a, {3}), Array(b, {3})}, std::vector{Array(y, {3})});
        if (std::abs(y[0] + y[2] - 2 * y[1]) > 1e-5) ++wrong;
        ++answers;
      }
    });
  }
  for (int step = 0; step < 300 || answers < 300; ++step) network.tick(step);
  ends = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace kolo::testing
