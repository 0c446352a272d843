#include "online/networks.h"

#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/error.h"
#include "online/advection.h"

namespace kolo {
namespace {

constexpr std::int64_t values = Advection::points * Advection::points;

class Linear final : public TensorsNetwork {
 public:
  std::vector<torch::Tensor> forward(std::span<const torch::Tensor> inputs) override {
    return {linear_(inputs[0])};
  }

 private:
  torch::nn::Linear linear_ = register_module("linear", torch::nn::Linear(values, values));
};

class Convolutions final : public TensorsNetwork {
 public:
  explicit Convolutions(const std::vector<std::int64_t>& channels) {
    for (std::size_t i = 1; i < channels.size(); ++i) {
      auto options = torch::nn::Conv2dOptions(channels[i - 1], channels[i], 3)
                         .padding(1)
                         .padding_mode(torch::kCircular);
      layers_.push_back(register_module(fmt::format("layer{}", i), torch::nn::Conv2d(options)));
    }
  }
  std::vector<torch::Tensor> forward(std::span<const torch::Tensor> inputs) override {
    auto x = inputs[0];
    for (std::size_t i = 0; i < layers_.size(); ++i) x = layers_[i](i == 0 ? x : torch::relu(x));
    return {x};
  }

 private:
  std::vector<torch::nn::Conv2d> layers_;
};

// As TorchFort's own kind of perceptron is: one more vector is added after each hidden layer.
class Mlp final : public TensorsNetwork {
 public:
  Mlp() {
    constexpr std::int64_t width = 64;
    constexpr int layers = 7;
    for (int i = 0; i < layers; ++i) {
      const bool is_last = i + 1 == layers;
      layers_.push_back(
          register_module(fmt::format("layer{}", i),
                          torch::nn::Linear(i == 0 ? values : width, is_last ? values : width)));
      if (!is_last)
        more_.push_back(register_parameter(fmt::format("more{}", i), torch::zeros({width})));
    }
  }
  std::vector<torch::Tensor> forward(std::span<const torch::Tensor> inputs) override {
    auto x = inputs[0];
    for (std::size_t i = 0; i < more_.size(); ++i) x = torch::relu(layers_[i](x) + more_[i]);
    return {layers_.back()(x)};
  }

 private:
  std::vector<torch::nn::Linear> layers_;
  std::vector<torch::Tensor> more_;
};

template <typename Network>
std::shared_ptr<TensorsNetwork> make() {
  return std::make_shared<Network>();
}

template <std::int64_t... channels>
std::shared_ptr<TensorsNetwork> make_convolutions() {
  return std::make_shared<Convolutions>(std::vector<std::int64_t>{channels...});
}

std::vector<TimedNetwork> all() {
  const std::vector<std::int64_t> field = {1, Advection::points, Advection::points};
  return {{"linear", {values}, make<Linear>},
          {"convolution", field, make_convolutions<1, 1>},
          {"convolutions", field, make_convolutions<1, 16, 16, 1>},
          {"mlp", {values}, make<Mlp>}};
}

}  // namespace

TimedNetwork timed_network(const std::string& name) {
  for (auto& network : all())
    if (network.name == name) return network;
  throw InputError(fmt::format("online_bench: there is no network \"{}\"; expected one of {}", name,
                               fmt::join(timed_networks(), ", ")));
}

std::vector<std::string> timed_networks() {
  std::vector<std::string> names;
  for (const auto& network : all()) names.push_back(network.name);
  return names;
}

}  // namespace kolo
