// A network that learns to tell the clothes of Fashion-MNIST apart, in plain LibTorch, on one
// processor. mnist_parallel.cpp is the same program on many; compare the two.
//
//   mnist_alone FOLDER [EPOCHS]     FOLDER holds the four files of the dataset, unpacked
#include <cstdio>
#include <cstdlib>
#include <string>

#include <torch/torch.h>

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
  const torch::Device device(torch::kCPU);
  torch::manual_seed(1);

  auto train_images = read_images(argv[1], torch::data::datasets::MNIST::Mode::kTrain);
  auto test_images = read_images(argv[1], torch::data::datasets::MNIST::Mode::kTest);
  torch::data::samplers::RandomSampler train_sampler(*train_images.size());
  auto train_loader = torch::data::make_data_loader(std::move(train_images), train_sampler, 64);
  auto test_loader = torch::data::make_data_loader(std::move(test_images), 1000);

  auto network = make_network();
  network->to(device);
  const double learning_rate = 0.05;
  const auto options = torch::optim::SGDOptions(learning_rate).momentum(0.9);
  SGD optimizer(network->parameters(), options);

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
    const double mean_loss = loss_sum / steps;
    const double accuracy = accuracy_of(network, test_loader, device);
    std::printf("epoch %d  loss %.4f  test accuracy %.2f %%\n", epoch, mean_loss, 100 * accuracy);
    torch::save(network, "mnist.pt");
  }
  return 0;
}
