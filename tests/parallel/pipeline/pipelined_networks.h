#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "kolo/parallel/pipeline_stages.h"

// Small networks as chains, and samples for them.
namespace kolo::testing {

// Random, the same for the same seed, whatever other threads draw.
inline torch::Tensor noise_of(std::vector<std::int64_t> sizes, std::int64_t seed) {
  const auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return torch::randn(sizes, generator);
}

// Values that don't depend on other threads' random numbers.
inline void set_parameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_gradient;
  std::int64_t seed = 100;
  for (auto& parameter : module.parameters())
    parameter.copy_(noise_of(parameter.sizes().vec(), seed++) * .2 +
                    (parameter.dim() == 1 ? .5 : 0));
}

// Cuts so many stages as evenly as can be.
inline std::vector<std::size_t> even_bounds(std::size_t stages, int parts) {
  std::vector<std::size_t> bounds;
  for (int part = 0; part <= parts; ++part)
    bounds.push_back(stages * static_cast<std::size_t>(part) / static_cast<std::size_t>(parts));
  return bounds;
}

// 3x12x12 to 5: ten stages, with batch norms and activations in place. (Without biases before batch
// norms, whose gradients are rounding errors alone.)
inline torch::nn::Sequential image_network() {
  using namespace torch::nn;
  const auto relu = [] { return ReLU(ReLUOptions(/*inplace=*/true)); };
  const auto same = [](std::int64_t from, std::int64_t to) {
    return Conv2d(Conv2dOptions(from, to, 3).padding(1).bias(false));
  };
  Sequential network;
  network->push_back("first", same(3, 6));
  network->push_back("norm1", BatchNorm2d(6));
  network->push_back("relu1", relu());
  network->push_back("second", same(6, 8));
  network->push_back("norm2", BatchNorm2d(8));
  network->push_back("relu2", relu());
  network->push_back("pool", MaxPool2d(2));
  network->push_back("third", Conv2d(Conv2dOptions(8, 4, 3).stride(2)));
  network->push_back("flat", Flatten());
  network->push_back("last", Linear(16, 5));
  set_parameters(*network);
  return network;
}

// A chain whose first results travel to the last stage, past all between, and change in place.
class SkipNetwork : public torch::nn::Module {
 public:
  SkipNetwork() {
    for (std::int64_t depth = 0; depth < depths; ++depth) add(depth);
    last_ = register_module("last", torch::nn::Linear(2 * width, 3));
    set_parameters(*this);
  }

  [[nodiscard]] std::vector<NetworkStage> stages() const {
    std::vector<NetworkStage> stages;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const auto name = "layer" + std::to_string(i);
      stages.push_back({name,
                        {{name, layers_[i].ptr()}},
                        [layer = layers_[i], is_first = i == 0](StagePayload payload) mutable {
                          auto x = layer(payload.back());
                          torch::leaky_relu_(x, .01);
                          if (is_first) payload.clear();
                          if (payload.size() > 1)
                            payload.back() = x;
                          else
                            payload.push_back(x);
                          return payload;
                        }});
    }
    stages.push_back(
        {"last", {{"last", last_.ptr()}}, [last = last_](StagePayload payload) mutable {
           return StagePayload{last(torch::cat(payload, 1)).tanh_()};
         }});
    return stages;
  }
  static constexpr std::int64_t inputs = 7;

 private:
  static constexpr std::int64_t depths = 7, width = 6;
  void add(std::int64_t depth) {
    layers_.push_back(register_module("layer" + std::to_string(depth),
                                      torch::nn::Linear(depth == 0 ? inputs : width, width)));
  }

  std::vector<torch::nn::Linear> layers_;
  torch::nn::Linear last_{nullptr};
};

}  // namespace kolo::testing
