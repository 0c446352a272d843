#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/comm/threads.h"
#include "kolo/data/dataset.h"
#include "kolo/nn/models.h"
#include "kolo/train/trainer.h"

namespace kolo::testing {

// A copy of all weights, one after the other.
inline torch::Tensor flat_weights(const torch::nn::Module& network) {
  std::vector<torch::Tensor> flat;
  for (const auto& parameter : network.parameters()) flat.push_back(parameter.detach().flatten());
  return torch::cat(flat).clone();
}

// Without LibTorch's generator, which ranks that are threads share.
inline void set_fixed_weights(torch::nn::Module& network, double size) {
  const torch::NoGradGuard no_gradient;
  int seed = 1;
  for (auto& parameter : network.parameters()) {
    const auto numbers = torch::sin(torch::arange(parameter.numel()) * (++seed * .37));
    parameter.copy_(numbers.view(parameter.sizes()) * size);
  }
}

struct TrainingSetup {
  std::int64_t samples = 100;
  std::int64_t batch_size = 8;  // a rank
  std::int64_t epochs = 2;
  double dropout = .5;
  double learning_rate = .05;
  std::int64_t warmup_steps = 0;  // from a rate of 0
  std::int64_t top = 0;
  std::function<void(TrainerOptions&)> change = [](TrainerOptions&) {};
  std::shared_ptr<const FlatOptimizer> optimizer = make_sgd({.momentum = .5});
  // Makes the loss of training from the plain one; gets the rank.
  std::function<LossFunction(int, LossFunction)> loss = [](int, LossFunction plain) {
    return plain;
  };
  // Device that a rank computes on.
  std::function<torch::Device(int rank)> device = [](int) { return torch::Device(torch::kCPU); };
};

// Samples whose class can be learned: the class decides which part of the image is bright.
class StripesDataset : public Dataset {
 public:
  explicit StripesDataset(std::int64_t size) : noise_({{1, 16, 16}, 4, {}}, size, 5) {}

  [[nodiscard]] std::int64_t size() const override { return noise_.size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return noise_.layout(); }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override {
    noise_.read(index, epoch, place);
    place.label[0] = index % 4;
    for (std::size_t i = 0; i < 64; ++i)
      place.input[static_cast<std::size_t>(index % 4) * 64 + i] += 2;
  }

 private:
  RandomDataset noise_;
};

// A small training of mnist_net on stripes, with everything a rank needs.
class SmallTraining {
 public:
  SmallTraining(
      const Communicator& communicator, const TrainingSetup& setup,
      std::function<bool()> stop = [] { return false; })
      : training_(data(setup.samples), sampler(setup.samples, communicator, true),
                  {.batch_size = setup.batch_size}),
        validation_(data(37), sampler(37, communicator, false), {.batch_size = 10}),
        network_(make_network(
            "mnist_net", {.input_shape = {1, 16, 16}, .classes = 4, .dropout = setup.dropout})),
        trainer_(communicator, fixed_weights(network_, setup.device(communicator.rank())),
                 {.loss = setup.loss(communicator.rank(), make_loss("cross_entropy")),
                  .validation_loss = make_loss("cross_entropy"),
                  .top = setup.top},
                 setup.optimizer,
                 LearningRate({.base_rate = setup.learning_rate,
                               .warmup_steps = setup.warmup_steps,
                               .warmup_from = 0}),
                 training_, validation_, options(setup, std::move(stop))) {}

  [[nodiscard]] Trainer& trainer() { return trainer_; }
  [[nodiscard]] Loader& validation() { return validation_; }
  [[nodiscard]] Network& network() { return *network_; }

  // All weights, one after the other.
  [[nodiscard]] torch::Tensor weights() const { return flat_weights(*network_); }

 private:
  static std::shared_ptr<const Dataset> data(std::int64_t size) {
    return std::make_shared<StripesDataset>(size);
  }
  static DistributedSampler sampler(std::int64_t size, const Communicator& communicator,
                                    bool is_training) {
    return {size,
            communicator.rank(),
            communicator.size(),
            {is_training, 4, is_training ? Padding::repeat : Padding::none}};
  }
  static TrainerOptions options(const TrainingSetup& setup, std::function<bool()> stop) {
    TrainerOptions options;
    options.n_epochs = setup.epochs;
    options.seed = 3;
    options.buckets = {4096, 4096};
    options.stop_requested = std::move(stop);
    setup.change(options);
    return options;
  }
  static std::shared_ptr<Network> fixed_weights(const std::shared_ptr<Network>& network,
                                                const torch::Device& device) {
    set_fixed_weights(*network, .15);
    network->to(device);
    return network;
  }

  Loader training_, validation_;
  std::shared_ptr<Network> network_;
  Trainer trainer_;
};

// Remembers what a training reported.
class Recorder final : public Observer {
 public:
  void on_start(const TrainState&, const std::optional<MetricSums>& untrained_sums) override {
    untrained = untrained_sums;
  }
  void on_epoch_begin(const TrainState&, std::int64_t steps, std::int64_t done) override {
    steps_in_epoch = steps;
    done_at_begin.push_back(done);
  }
  void on_step(const StepReport& report) override { losses.push_back(report.sums.mean_loss()); }
  void on_epoch_end(const EpochReport& report) override {
    epochs.push_back({report.training, report.validation});
    is_best.push_back(report.is_best);
    skipped_in_epoch.push_back(report.skipped_steps);
  }
  void on_stop(const TrainState&) override { ++stops; }
  void on_finish(const TrainState&) override { ++finishes; }

  struct Epoch {
    MetricSums training, validation;
  };
  std::optional<MetricSums> untrained;
  std::vector<double> losses;
  std::vector<Epoch> epochs;
  std::vector<bool> is_best;
  std::vector<std::int64_t> done_at_begin;
  std::vector<std::int64_t> skipped_in_epoch;
  std::int64_t steps_in_epoch = 0;
  int stops = 0, finishes = 0;
};

// Does something after each step.
class AtSteps final : public Observer {
 public:
  explicit AtSteps(std::function<void(const StepReport&)> body) : body_(std::move(body)) {}
  void on_step(const StepReport& report) override { body_(report); }

 private:
  std::function<void(const StepReport&)> body_;
};

// Trains to the end on so many ranks, as threads.
struct Outcome {  // of rank 0
  Recorder record;
  torch::Tensor weights;
  TrainState state;
};

inline Outcome train_on(int ranks, const TrainingSetup& setup,
                        const ThreadRanksOptions& options = {}) {
  Outcome outcome;
  const auto body = [&](const Communicator& communicator) {
    // CUDA graphs can't be recorded on the default stream.
    std::optional<c10::StreamGuard> stream;
    if (const auto device = setup.device(communicator.rank()); device.is_cuda()) {
      const c10::impl::VirtualGuardImpl streams(device.type());
      stream.emplace(streams.getStreamFromGlobalPool(device));
    }
    SmallTraining training(communicator, setup);
    if (communicator.rank() == 0) training.trainer().add_observer(outcome.record);
    EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
    if (communicator.rank() != 0) return;
    outcome.weights = training.weights().cpu();
    outcome.state = training.trainer().state();
  };
  run_as_threads(ranks, body, options);
  return outcome;
}

}  // namespace kolo::testing
