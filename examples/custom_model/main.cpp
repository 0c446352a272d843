// A network of your own in a whole run of kolo's: written as a kolo::Network, registered under a
// name, and chosen by that name in a configuration like those that come with kolo. The program has
// kolo's commands for runs:
//
//   custom_model train custom.yaml -n 2 [--resume] [key.sub=value ...]    or by mpirun, or srun
//   custom_model eval results/custom           and predict, bench, scale, sweep, report
#include <torch/torch.h>

#include <kolo/cli/run_main.h>
#include <kolo/nn/network.h>

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

int main(int argc, char** argv) {
  kolo::RunComponents components;  // all of kolo's networks, and this one
  components.models.add(
      {.name = "two_towers",
       .description = "convolutions of 3x3 and 7x7 side by side",
       .make = [](const auto& options) { return std::make_shared<TwoTowers>(options); },
       .has_batch_norm = false});
  return kolo::run_main(argc, argv, components);
}
