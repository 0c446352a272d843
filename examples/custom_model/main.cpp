// A network of your own in kolo's trainer: written as a kolo::Network, registered under a name, and
// then chosen by that name in a configuration like those that come with kolo.
//
//   kolo run -n 2 custom_model custom.yaml [key.sub=value ...]     or any mpirun, or srun
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>

#include <kolo/config/factories.h>
#include <kolo/nn/summary.h>
#include <kolo/observe/format.h>
#include <kolo/parallel.h>
#include <kolo/train/trainer.h>

// Two branches that see the image at different scales, joined for the decision.
class TwoTowers final : public kolo::Network {
 public:
  explicit TwoTowers(const kolo::ModelOptions& options)
      : fine_(register_module("fine", tower(options.input_shape.at(0), 3))),
        coarse_(register_module("coarse", tower(options.input_shape.at(0), 7))),
        dropout_(register_module("dropout", torch::nn::Dropout(options.dropout.value_or(.2)))),
        decide_(register_module("decide", torch::nn::Linear(2 * 16 * 4 * 4, options.classes))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    const auto both = torch::cat({fine_->forward(input), coarse_->forward(input)}, 1);
    return decide_(dropout_(both.flatten(1)));
  }

 private:
  static torch::nn::Sequential tower(std::int64_t channels, std::int64_t kernel) {
    const auto options = torch::nn::Conv2dOptions(channels, 16, kernel).padding(kernel / 2);
    return torch::nn::Sequential(torch::nn::Conv2d(options), torch::nn::ReLU(),
                                 torch::nn::AdaptiveMaxPool2d(4));
  }

  torch::nn::Sequential fine_, coarse_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear decide_;
};

// All of kolo's networks, and this one.
kolo::ModelCatalogue models() {
  auto catalogue = kolo::built_in_models();
  catalogue.add({.name = "two_towers",
                 .description = "convolutions of 3x3 and 7x7 side by side",
                 .make = [](const kolo::ModelOptions& options) -> std::shared_ptr<kolo::Network> {
                   return std::make_shared<TwoTowers>(options);
                 },
                 .has_batch_norm = false});
  return catalogue;
}

// Says how each epoch went, on rank 0.
class Printer final : public kolo::Observer {
 public:
  void on_epoch_end(const kolo::EpochReport& report) override {
    std::printf("epoch %ld  loss %.4f  validation accuracy %.2f %%  %s images/s\n",
                static_cast<long>(report.state.epoch), report.training.mean_loss(),
                100 * report.validation->accuracy(),
                kolo::format_rate(report.training.samples / report.seconds).c_str());
    std::fflush(stdout);
  }
};

int train(const kolo::RunConfig& config) {
  const auto world = kolo::initialize();
  kolo::pin_device(world);
  const auto datasets = kolo::make_datasets(config);
  const auto network = kolo::make_network(config, datasets.training->layout(), models());
  const auto training =
      kolo::make_training_loader(config, datasets.training, world.rank(), world.size());
  const auto validation =
      kolo::make_validation_loader(config, datasets.validation, world.rank(), world.size());
  kolo::Trainer trainer(world, network, kolo::make_objective(config),
                        kolo::make_optimizer(config, models()),
                        kolo::make_learning_rate(config, world.size(), training->batches()),
                        *training, *validation, kolo::make_trainer_options(config));
  Printer printer;
  if (world.rank() == 0) {
    std::cout << kolo::to_text(kolo::summarize(*network, datasets.training->layout().input_shape));
    trainer.add_observer(printer);
  }
  (void)trainer.run();
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: custom_model FILE.yaml [key.sub=value ...]\n");
    return 2;
  }
  try {
    return train(kolo::load_run_config({argv[1], {}, {argv + 2, argv + argc}}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "custom_model: %s\n", error.what());
    return 1;
  }
}
