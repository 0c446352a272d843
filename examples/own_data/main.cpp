// Data of your own: a kolo::Dataset that reads a table, and a training loop whose batches kolo's
// loader makes from it, on any number of ranks. docs/use/own-data.md explains it.
//
//   kolo run -n 2 own_data TRAINING.csv VALIDATION.csv [EPOCHS]     or any mpirun, or srun
//
// A line of a table is a class, counted from 0, and the numbers to tell it by: 2,0.31,-1.07
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <kolo/base/error.h>
#include <kolo/data/loader.h>
#include <kolo/parallel.h>

class TableDataset final : public kolo::Dataset {
 public:
  explicit TableDataset(const std::string& path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::replace(line.begin(), line.end(), ',', ' ');
      std::istringstream numbers(line);
      std::int64_t label = -1;
      numbers >> label;
      labels_.push_back(label);
      for (float value; numbers >> value;) values_.push_back(value);
      if (labels_.size() == 1) columns_ = values_.size();
      if (label < 0 || !numbers.eof() || columns_ == 0 ||
          values_.size() != labels_.size() * columns_) {
        throw kolo::InputError(path + ": line " + std::to_string(labels_.size()) +
                               ": expected a class and as many numbers as in the first line");
      }
    }
    if (labels_.empty()) throw kolo::InputError(path + ": no such file, or an empty one");
    layout_.input_shape = {static_cast<std::int64_t>(columns_)};
    layout_.classes = *std::max_element(labels_.begin(), labels_.end()) + 1;
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const kolo::SampleLayout& layout() const override { return layout_; }

  // Called by several threads at once. What varies a sample at random may depend on `index`,
  // `epoch` and a seed alone, so that all ranks agree on it.
  void read(std::int64_t index, std::int64_t /*epoch*/,
            const kolo::SampleSpans& place) const override {
    check_read(index, place, columns_, 1);
    const auto row = static_cast<std::size_t>(index);
    std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(row * columns_), columns_,
                place.input.begin());
    place.label[0] = labels_[row];
  }

 private:
  std::vector<std::int64_t> labels_;
  std::vector<float> values_;  // row by row
  std::size_t columns_ = 0;
  kolo::SampleLayout layout_;
};

// The share of the samples that the network names rightly, over all ranks.
double accuracy_of(torch::nn::Sequential& network, kolo::Loader& loader,
                   const kolo::Communicator& world) {
  const torch::NoGradGuard no_gradient;
  double correct = 0, samples = 0;
  loader.start_epoch(0);
  while (const auto batch = loader.next()) {
    correct += network->forward(batch->input).argmax(1).eq(batch->target).sum().item<double>();
    samples += static_cast<double>(batch->target.size(0));
  }
  return kolo::average(world, correct / std::max(samples, 1.0), samples);
}

int train(const std::string& training_file, const std::string& validation_file, int epochs) {
  const auto world = kolo::initialize();
  kolo::pin_device(world);
  kolo::seed_ranks(world, 1);
  const auto training = std::make_shared<TableDataset>(training_file);
  const auto validation = std::make_shared<TableDataset>(validation_file);
  // Ranks draw equally many samples in training; in validation each sample is drawn once.
  kolo::Loader loader(training, {training->size(), world.rank(), world.size()},
                      {.batch_size = 32, .workers = 1});
  kolo::Loader validation_loader(
      validation, {validation->size(), world.rank(), world.size(), {false, 0, kolo::Padding::none}},
      {.batch_size = 100, .workers = 0});

  const auto& layout = training->layout();
  torch::nn::Sequential network(torch::nn::Linear(layout.input_size(), 32), torch::nn::ReLU(),
                                torch::nn::Linear(32, layout.classes));
  kolo::DistributedOptimizer optimizer(world, *network,
                                       torch::optim::Adam(network->parameters(), 0.01));
  kolo::broadcast_state(world, *network, optimizer.inner());
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    loader.start_epoch(epoch);
    while (const auto batch = loader.next()) {
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(network->forward(batch->input), batch->target)
          .backward();
      optimizer.step();
    }
    const double accuracy = accuracy_of(network, validation_loader, world);
    if (world.rank() == 0) std::printf("epoch %d  accuracy %.2f %%\n", epoch, 100 * accuracy);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: own_data TRAINING.csv VALIDATION.csv [EPOCHS]\n");
    return 2;
  }
  try {
    return train(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 5);
  } catch (const kolo::InputError& error) {
    std::fprintf(stderr, "own_data: %s\n", error.what());
    return 2;
  }
}
