
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "kolo/base/error.h"
#include "kolo/online/online_network.h"
#include "kolo/train/observe/history.h"
#include "online/tensor_array.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

// Kinds of samples, networks and losses, one rank.
namespace kolo::testing {
namespace {

std::string script_file(const TemporaryFolder& folder, const std::string& name,
                        const std::string& forward) {
  torch::jit::Module module(name);
  module.register_parameter("w", torch::ones({1}, torch::requires_grad()), false);
  module.define(forward);
  const auto path = folder / (name + ".pt");
  module.save(path.string());
  return path.string();
}

OnlineNetwork made(const std::string& text) {
  return OnlineNetwork(Communicator::solo(),
                       load_online_config(text + "\noptimizer: {name: sgd, lr: 0.1}\n"));
}

// y = w x - z with a weight for each sample in the loss: only those with a weight count.
TEST(OnlineKinds, ScriptsOfSeveralInputsAndTheirLoss) {
  const TemporaryFolder folder;
  const auto network_file = script_file(folder, "network", R"(
def forward(self, x, z):
    return self.w * x - z
)");
  const auto loss_file = script_file(folder, "loss", R"(
def forward(self, y, target, weight):
    return (weight * (y - target) * (y - target)).mean()
)");
  auto network = made("model: {name: torchscript, file: " + network_file +
                      "}\ntraining: {batch_size: 8, loss_file: " + loss_file + "}");
  for (int step = 0; step < 200; ++step) {
    const auto x = torch::rand({8, 3}), z = torch::rand({8, 3});
    auto target = 5 * x - z;
    auto weight = torch::ones({8, 1});
    target[3].fill_(1000);
    weight[3] = 0;
    network.push(std::vector{array_of(x), array_of(z)}, std::vector{array_of(target)},
                 std::vector{array_of(weight)});
    network.tick(step);
  }
  const auto x = torch::ones({1, 3}), z = torch::zeros({1, 3});
  auto y = torch::zeros({1, 3});
  network.infer(std::vector{array_of(x), array_of(z)}, std::vector{array_of(y)});
  EXPECT_TRUE(torch::allclose(y, torch::full({1, 3}, 5.F), 1e-2, 1e-2)) << y;
  EXPECT_LT(network.get("loss"), 1e-2);
}

// A graph: nodes' features, edges' indices; messages are summed up at each node.
TEST(OnlineKinds, GraphsAsWholeSamples) {
  const TemporaryFolder folder;
  const auto file = script_file(folder, "graph", R"(
def forward(self, nodes, edges):
    messages = nodes.index_select(0, edges[0]) * self.w
    return torch.zeros_like(nodes).index_add(0, edges[1], messages)
)");
  auto network =
      made("model: {name: torchscript, file: " + file +
           "}\ntraining: {samples: whole, batch_size: 1, loss: mse}\nreservoir: {minimum: 4}");
  const auto edges = torch::tensor({0, 1, 2, 3, 1, 2, 3, 0}, torch::kLong).view({2, 4});
  for (int step = 0; step < 100; ++step) {
    const auto nodes = torch::randn({4, 2});
    const auto target = -2 * nodes.roll(1, 0);
    network.push(std::vector{array_of(nodes), array_of(edges)}, std::vector{array_of(target)});
    network.tick(step);
  }
  const auto nodes = torch::randn({4, 2});
  auto found = torch::zeros({4, 2});
  network.infer(std::vector{array_of(nodes), array_of(edges)}, std::vector{array_of(found)});
  EXPECT_TRUE(torch::allclose(found, -2 * nodes.roll(1, 0), 1e-2, 1e-2));
}

TEST(OnlineKinds, ColumnsAreSamples) {
  auto network = made(
      "model: {name: mlp, hidden: [], inputs: [2, 5], outputs: [1, 5]}\n"
      "training: {samples: columns, column_axis: 0, batch_size: 8, n_steps: 4, loss: mse}");
  torch::manual_seed(1);
  for (int step = 0; step < 500; ++step) {
    const auto t = torch::randn({5, 4, 3}), q = torch::randn({5, 4, 3});  // [z, y, x]
    const auto target = t.flip(0) + .5 * q;
    network.push(std::vector{array_of(t), array_of(q)}, std::vector{array_of(target)});
    network.tick(step);
  }
  const auto t = torch::randn({5, 2, 2}), q = torch::randn({5, 2, 2});
  auto found = torch::zeros({5, 2, 2});
  network.infer(std::vector{array_of(t), array_of(q)}, std::vector{array_of(found)});
  EXPECT_TRUE(torch::allclose(found, t.flip(0) + .5 * q, .05, .05));
}

TEST(OnlineKinds, AFailingNetworkIsAnErrorThatNamesTheCall) {
  const TemporaryFolder folder;
  const auto file = script_file(folder, "two", R"(
def forward(self, x, z):
    return self.w * x - z
)");
  auto network =
      made("model: {name: torchscript, file: " + file + "}\ntraining: {batch_size: 4, loss: mse}");
  const auto x = torch::rand({4, 3});
  const auto words = message_of<Error>(
      [&] { (void)network.train(std::vector{array_of(x)}, std::vector{array_of(x)}); });
  EXPECT_EQ(words.rfind("online: train on rank 0: step 1 failed: ", 0), 0U) << words;
  EXPECT_NE(words.find("two.pt"), std::string::npos) << words;
}

TEST(OnlineKinds, AReservoirLargerThanMemoryIsRefused) {
  const auto words = message_of<InputError>([] {
    (void)made("model: {name: mlp, inputs: [2], outputs: [1]}\nreservoir: {capacity: 9000 TB}");
  });
  EXPECT_EQ(
      words.rfind("reservoir.capacity: 9000 TB per rank that trains, of which this machine has "
                  "1, would take 7.99 PiB, but it has ",
                  0),
      0U)
      << words;
}

TEST(OnlineKinds, RecordsAreWritten) {
  const TemporaryFolder folder;
  {
    auto network = made(
        "model: {name: mlp, hidden: [], inputs: [2], outputs: [1]}\n"
        "training: {batch_size: 4, loss: mse, log_every: 5}\noutput_dir: " +
        (folder / "run").string());
    for (int step = 0; step < 20; ++step) {
      const auto x = torch::rand({4, 2}), y = torch::rand({4, 1});
      network.push(std::vector{array_of(x)}, std::vector{array_of(y)});
      network.tick(step);
      network.log("energy", step, 1. / (step + 1));
    }
  }
  const auto history = History::read(folder / "run/history.json");
  ASSERT_EQ(history.steps().size(), 4U);
  EXPECT_EQ(history.steps().back().step, 20);
  EXPECT_GT(history.steps().back().loss, 0);
}

}  // namespace
}  // namespace kolo::testing
