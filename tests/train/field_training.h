#pragma once

#include <memory>

#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>

#include "kolo/data/dataset.h"
#include "kolo/train/trainer.h"
#include "train/training_fixture.h"

namespace kolo::testing {

// Fields that can be learned but for some noise: small multiples of the input.
class FieldDataset final : public Dataset {
 public:
  explicit FieldDataset(std::int64_t size) : noise_({{1, 8, 8}, 0, {2, 8, 8}}, size, 5) {}

  [[nodiscard]] std::int64_t size() const override { return noise_.size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return noise_.layout(); }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override {
    noise_.read(index, epoch, place);
    for (std::size_t i = 0; i < 64; ++i) {
      place.target[i] = .03F * place.target[i] + .05F * place.input[i];
      place.target[64 + i] = .01F * place.target[64 + i] + .02F - .03F * place.input[i];
    }
  }

 private:
  RandomDataset noise_;
};

// Two convolutions.
class FieldNetwork final : public Network {
 public:
  FieldNetwork() { set_fixed_weights(*this, .2); }

  torch::Tensor forward(const torch::Tensor& input) override {
    output_type = torch::kFloat;
    const auto outputs = second_(torch::tanh(first_(input)));
    output_type = outputs.scalar_type();
    return outputs;
  }

  torch::ScalarType output_type = torch::kFloat;  // of the last forward

 private:
  static torch::nn::Conv2dOptions convolution(std::int64_t from, std::int64_t to) {
    return torch::nn::Conv2dOptions(from, to, 3).padding(1);
  }
  torch::nn::Conv2d first_ = register_module("first", torch::nn::Conv2d(convolution(1, 8)));
  torch::nn::Conv2d second_ = register_module("second", torch::nn::Conv2d(convolution(8, 2)));
};

struct FieldSetup {
  std::int64_t samples = 64;
  std::int64_t batch_size = 8;  // a rank
  std::int64_t epochs = 3;
  double learning_rate = .01;
  Precision precision = Precision::fp32;
  std::function<void(TrainerOptions&)> change = [](TrainerOptions&) {};
  // Makes the loss of training from l1; gets the rank.
  std::function<LossFunction(int, LossFunction)> loss = [](int, LossFunction l1) { return l1; };
};

// A small training of fields, with everything a rank needs.
class FieldTraining {
 public:
  FieldTraining(
      const Communicator& communicator, const FieldSetup& setup,
      std::function<bool()> stop = [] { return false; })
      : training_(
            std::make_shared<FieldDataset>(setup.samples),
            {setup.samples, communicator.rank(), communicator.size(), {true, 4, Padding::repeat}},
            {.batch_size = setup.batch_size}),
        validation_(std::make_shared<FieldDataset>(13),
                    {13, communicator.rank(), communicator.size(), {false, 0, Padding::none}},
                    {.batch_size = 5}),
        network_(std::make_shared<FieldNetwork>()),
        trainer_(communicator, network_, objective(communicator.rank(), setup), make_adam({}),
                 LearningRate({.base_rate = setup.learning_rate}), training_, validation_,
                 options(setup, std::move(stop))) {}

  [[nodiscard]] Trainer& trainer() { return trainer_; }
  [[nodiscard]] FieldNetwork& network() { return *network_; }
  [[nodiscard]] torch::Tensor weights() const { return flat_weights(*network_); }

 private:
  static Objective objective(int rank, const FieldSetup& setup) {
    return {.loss = setup.loss(rank, make_loss("l1")),
            .validation_loss = make_loss("l1"),
            .precision = setup.precision,
            .counts_correct = false};
  }
  static TrainerOptions options(const FieldSetup& setup, std::function<bool()> stop) {
    TrainerOptions options;
    options.n_epochs = setup.epochs;
    options.buckets = {512, 512};
    options.stop_requested = std::move(stop);
    setup.change(options);
    return options;
  }

  Loader training_, validation_;
  std::shared_ptr<FieldNetwork> network_;
  Trainer trainer_;
};

}  // namespace kolo::testing
