#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kolo/nn/loss.h"
#include "kolo/nn/models.h"
#include "kernels/fused.h"

namespace kolo::testing {

// A small network of one of the models, and how it is trained.
struct Setting {
  std::string model;
  std::vector<std::int64_t> input;
  std::vector<std::int64_t> output = {};  // of fields
  std::int64_t batch = 4;
  std::int64_t levels = 0;
  std::int64_t channels = 0;
  double rate = .01;
  double tolerance = .01;   // of the loss at first, between curves
  std::int64_t margin = 0;  // of zeros around what inputs show
};

inline void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.model;
}

inline std::vector<std::int64_t> batched(std::int64_t batch, std::vector<std::int64_t> shape) {
  shape.insert(shape.begin(), batch);
  return shape;
}

enum class Operators { kernels, plain };

// Trains on batches that a step's number determines, without dropout.
class Training {
 public:
  Training(const Setting& setting, Operators operators, int seed = 3,
           torch::ScalarType type = torch::kFloat)
      : setting_(setting), operators_(operators), seed_(seed), type_(type) {
    torch::manual_seed(seed);
    ModelOptions options{.input_shape = setting.input};
    const auto catalogue = built_in_models();
    const auto& description = catalogue.find(setting.model);
    if (description.output == ModelOutput::numbers)
      options.output_shape = setting.output;
    else
      options.classes = 10;
    options.dropout = 0;  // also where there is none
    if (setting.levels > 0) options.levels = setting.levels;
    if (setting.channels > 0) options.channels = setting.channels;
    network_ = make_network(setting.model, options);
    network_->to(type);
    loss_ = make_loss(description.output == ModelOutput::numbers ? "l1" : "cross_entropy");
  }

  // The loss; gradients of the step are there afterwards.
  double backward(std::int64_t step) {
    const auto plain = operators_ == Operators::plain ? std::make_unique<PlainKernels>() : nullptr;
    torch::manual_seed(100 * seed_ + step % 8);  // eight batches, again and again
    auto input = torch::randn(batched(setting_.batch, setting_.input)).to(type_);
    for (std::int64_t i = 2; i < input.dim(); ++i) {
      input.narrow(i, 0, setting_.margin).zero_();
      input.narrow(i, input.size(i) - setting_.margin, setting_.margin).zero_();
    }
    const auto target = setting_.output.empty()
                            ? torch::randint(10, {setting_.batch}, torch::kLong)
                            : torch::randn(batched(setting_.batch, setting_.output)).to(type_);
    network_->zero_grad();
    const torch::Tensor loss = loss_(network_->forward(input), target);
    loss.backward();
    return loss.item<double>();
  }

  void update(double rate) {
    const torch::NoGradGuard no_gradient;
    for (auto& parameter : network_->parameters()) parameter.sub_(parameter.grad(), rate);
  }

  // All of them, one parameter's after another's.
  [[nodiscard]] torch::Tensor gradients() const {
    std::vector<torch::Tensor> parts;
    for (const torch::Tensor& parameter : network_->parameters())
      parts.push_back(parameter.grad().to(torch::kDouble).contiguous().view(-1));
    return torch::cat(parts);
  }

 private:
  Setting setting_;
  Operators operators_;
  int seed_;
  torch::ScalarType type_;
  std::shared_ptr<Network> network_;
  LossFunction loss_;
};

inline std::string setting_name(const ::testing::TestParamInfo<Setting>& test) {
  return test.param.model + std::to_string(test.index);
}

}  // namespace kolo::testing
