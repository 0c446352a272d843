#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "kolo/nn/models.h"

namespace kolo::testing {

// Makes a network of the catalogue, as small as possible, without random numbers.
struct SmallModel {
  std::string name;
  ModelOptions options;

  [[nodiscard]] torch::Tensor input(std::int64_t samples) const {
    std::vector<std::int64_t> shape{samples};
    shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
    return torch::randn(shape);
  }
};

// Names in the catalogue except `torchscript`.
[[nodiscard]] inline std::vector<SmallModel> small_models() {
  return {
      {"mnist_net", {.input_shape = {1, 28, 28}, .classes = 10, .dropout = 0}},
      {"mnist_cnn", {.input_shape = {1, 28, 28}, .classes = 10, .dropout = 0}},
      {"cnn", {.input_shape = {3, 32, 32}, .classes = 10, .dropout = 0}},
      {"small_cnn", {.input_shape = {3, 32, 32}, .classes = 10}},
      {"resnet_small", {.input_shape = {3, 32, 32}, .classes = 10}},
      {"resnet50", {.input_shape = {3, 64, 64}, .classes = 10}},
      {"mlp", {.input_shape = {2, 3, 4}, .classes = 10}},
      {"unet3d",
       {.input_shape = {2, 16, 16, 16},
        .output_shape = {3, 16, 16, 16},
        .levels = 2,
        .channels = 4}},
  };
}

[[nodiscard]] inline std::string name_of(const ::testing::TestParamInfo<SmallModel>& info) {
  return info.param.name;
}

}  // namespace kolo::testing
