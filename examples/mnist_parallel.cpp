// mnist_alone.cpp on many processors: the lines marked 1 to 8 are the difference. docs/library/training-loops.md
// explains them.
//
//   kolo run -n 2 mnist_parallel FOLDER [EPOCHS]     or any mpirun, or srun
#include <cstdio>
#include <cstdlib>
#include <string>

#include <torch/torch.h>

#include <kolo/parallel.h>

using torch::optim::SGD;

torch::nn::Sequential make_network() {
  return torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(784, 256), torch::nn::ReLU(),
                               torch::nn::Linear(256, 128), torch::nn::ReLU(),
                               torch::nn::Linear(128, 10));
}

auto read_images(const std::string& folder, torch::data::datasets::MNIST::Mode mode) {
  return torch::data::datasets::MNIST(folder, mode)
      .map(torch::data::transforms::Normalize<>(0.286, 0.353))
      .map(torch::data::transforms::Stack<>());
}

// The share of the test images that the network names rightly.
template <typename TestLoader>
double accuracy_of(torch::nn::Sequential& network, TestLoader& test_loader,
                   const torch::Device& device) {
  const torch::NoGradGuard no_gradient;
  network->eval();
  double correct = 0, images = 0;
  for (auto& batch : *test_loader) {
    const auto answers = network->forward(batch.data.to(device)).argmax(1);
    correct += answers.eq(batch.target.to(device)).sum().template item<double>();
    images += static_cast<double>(batch.data.size(0));
  }
  return correct / images;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [EPOCHS]\n", argv[0]);
    return 2;
  }
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 5;
  const auto world = kolo::initialize();                 // 1: all ranks of the job
  const torch::Device device = kolo::pin_device(world);  // 2: what this rank computes on
  kolo::seed_ranks(world, 1);

  auto train_images = read_images(argv[1], torch::data::datasets::MNIST::Mode::kTrain);
  auto test_images = read_images(argv[1], torch::data::datasets::MNIST::Mode::kTest);
  kolo::TorchSampler train_sampler(*train_images.size(), world);  // 3: its share of the images
  auto train_loader = torch::data::make_data_loader(std::move(train_images), train_sampler, 64);
  auto test_loader = torch::data::make_data_loader(std::move(test_images), 1000);

  auto network = make_network();
  network->to(device);
  const double learning_rate = 0.05 * world.size();  // 4: larger steps for a larger batch
  const auto options = torch::optim::SGDOptions(learning_rate).momentum(0.9);
  // 5: gradients are averaged over the ranks, while backward goes on
  kolo::DistributedOptimizer optimizer(world, *network, SGD(network->parameters(), options));
  kolo::broadcast_state(world, *network, optimizer.inner());  // 6: all begin with rank 0's

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    network->train();
    double loss_sum = 0;
    int steps = 0;
    for (auto& batch : *train_loader) {
      optimizer.zero_grad();
      const auto outputs = network->forward(batch.data.to(device));
      const auto loss = torch::nn::functional::cross_entropy(outputs, batch.target.to(device));
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
      ++steps;
    }
    const double mean_loss = kolo::average(world, loss_sum / steps);  // 8: of all ranks
    const double accuracy = accuracy_of(network, test_loader, device);
    if (world.rank() != 0) continue;  // 7: one rank prints and saves
    std::printf("epoch %d  loss %.4f  test accuracy %.2f %%\n", epoch, mean_loss, 100 * accuracy);
    torch::save(network, "mnist.pt");
  }
  return 0;
}
