#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "kolo/kernels/convolution.h"
#include "nn/models/model_parts.h"

// The network of "94% on CIFAR-10 in 3.29 seconds on a single GPU" (Jordan, arXiv:2404.00498), made
// to learn small images in a few epochs. A fixed convolution of 2x2 whitens patches of the images;
// three blocks follow, each of two 3x3 convolutions with batch norm and GELU, of 64, 256 and 256
// channels, with a max-pooling after the first; then pooling and one linear layer, whose outputs
// are scaled by 1/9.
namespace kolo::networks {

namespace {

constexpr std::int64_t patch = 2;  // height and width
// Convolutions begin as the identity of as many channels as come in (dirac), and default weights.
constexpr double norm_epsilon = 1e-12;
constexpr double output_scale = 1. / 9;

Convolution2d unbiased_convolution(std::int64_t inputs, std::int64_t outputs) {
  auto convolution =
      Convolution2d(torch::nn::Conv2dOptions(inputs, outputs, 3).padding(1).bias(false));
  const torch::NoGradGuard no_gradient;
  auto identity = convolution->weight.narrow(0, 0, std::min(inputs, outputs));
  torch::nn::init::dirac_(identity);
  return convolution;
}

// The directions of the patches' uncentered covariance, each divided by its deviation, and their
// negatives: [2 * channels * 4, channels, 2, 2].
torch::Tensor whitening_weights(const torch::Tensor& images) {
  constexpr double least_variance = 5e-4;
  const auto channels = images.size(1);
  const auto patches = images.to(torch::kDouble)
                           .unfold(2, patch, 1)
                           .unfold(3, patch, 1)
                           .permute({0, 2, 3, 1, 4, 5})
                           .reshape({-1, channels * patch * patch});
  const auto covariance = patches.t().mm(patches) / static_cast<double>(patches.size(0));
  const auto [variances, directions] = torch::linalg_eigh(covariance, "U");
  const auto scaled = directions.t() / (variances + least_variance).sqrt().unsqueeze(1);
  return torch::cat({scaled, -scaled}).reshape({-1, channels, patch, patch});
}

// Batch norm without a scale, whose shift learns 64 times as fast as other parameters: what is
// stored is an eighth of it, so that its gradient is eight times as long as well.
class ShiftNormImpl final : public torch::nn::Module {
 public:
  ShiftNormImpl(std::int64_t channels, double momentum)
      : shift_(register_parameter("shift", torch::zeros({channels}))) {
    norm_->push_back("norm", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(channels)
                                                        .eps(norm_epsilon)
                                                        .momentum(1 - momentum)
                                                        .affine(false)));
    register_module("layers", norm_);
  }

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& x) {
    constexpr double speed = 8;
    return norm_->forward(x) + (speed * shift_).view({1, -1, 1, 1});
  }

 private:
  torch::nn::Sequential norm_;  // of one layer, which can be replaced there (SyncBatchNorm)
  torch::Tensor shift_;
};
TORCH_MODULE(ShiftNorm);

class BlockImpl final : public torch::nn::Module {
 public:
  BlockImpl(std::int64_t inputs, std::int64_t outputs, double momentum)
      : convolution1_(register_module("convolution1", unbiased_convolution(inputs, outputs))),
        norm1_(register_module("norm1", ShiftNorm(outputs, momentum))),
        convolution2_(register_module("convolution2", unbiased_convolution(outputs, outputs))),
        norm2_(register_module("norm2", ShiftNorm(outputs, momentum))) {}

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) {
    auto x = torch::gelu(norm1_(torch::max_pool2d(convolution1_(input), 2)));
    return torch::gelu(norm2_(convolution2_(x)));
  }

 private:
  Convolution2d convolution1_;
  ShiftNorm norm1_;
  Convolution2d convolution2_;
  ShiftNorm norm2_;
};
TORCH_MODULE(Block);

class Airbench final : public ChainNetwork {
 public:
  Airbench(const ModelOptions& shapes, double momentum) {
    constexpr std::int64_t least_side = 25;  // what is left of it is 3x3
    constexpr std::array<std::int64_t, 3> widths = {64, 256, 256};
    const auto channels = channels_of(shapes, "airbench", least_side);
    std::int64_t width = 2 * channels * patch * patch;
    whitening_ = register_module("whitening", Convolution2d(channels, width, patch));
    {
      const torch::NoGradGuard no_gradient;
      whitening_->bias.zero_();
    }
    whitening_->weight.set_requires_grad(false);
    add_stage("whitening", {{"whitening", whitening_.ptr()}},
              [whitening = whitening_](const torch::Tensor& x) mutable {
                return torch::gelu(whitening(x));
              });
    for (std::size_t number = 0; number < widths.size(); ++number) {
      const auto name = fmt::format("block{}", number + 1);
      Block block = register_module(name, Block(width, widths[number], momentum));
      add_stage(name, {{name, block.ptr()}},
                [block](const torch::Tensor& x) mutable { return block(x); });
      width = widths[number];
    }
    torch::nn::Linear output = register_module(
        "output", torch::nn::Linear(torch::nn::LinearOptions(width, shapes.classes).bias(false)));
    add_stage("output", {{"output", output.ptr()}}, [output](const torch::Tensor& x) mutable {
      return output(x.amax({2, 3})) * output_scale;
    });
  }

  [[nodiscard]] std::int64_t first_samples() const override {
    return 5000;  // as in the author's program
  }
  void begin_with(const torch::Tensor& samples) override {
    const torch::NoGradGuard no_gradient;
    whitening_->weight.copy_(whitening_weights(samples));
  }

 private:
  Convolution2d whitening_{nullptr};
};

}  // namespace

struct AirbenchModel {
  std::optional<double> batch_norm_momentum;  // in Keras's sense

  void complete() { batch_norm_momentum = batch_norm_momentum.value_or(.6); }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return std::make_shared<Airbench>(shapes, batch_norm_momentum.value());
  }
};

template <typename Field>
void visit(Field& field, AirbenchModel& model) {
  field("batch_norm_momentum", model.batch_norm_momentum, fraction);
}

ModelEntry airbench() {
  return entry_of<AirbenchModel>("airbench",
                                 "whitened patches and six 3x3 convolutions, for few epochs; "
                                 "2 million parameters on CIFAR-10");
}

}  // namespace kolo::networks
