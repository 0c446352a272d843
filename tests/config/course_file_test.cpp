// Files of NERSC's U-Net tutorials, whose keys are their own.
#include <map>

#include "config/config_fixture.h"
#include "support/says.h"

namespace kolo {
namespace {

class CourseFile : public testing::ConfigTest {
 protected:
  // Each key that they have.
  static constexpr const char* text =
      "base: &base\n"
      "  weight_init: {conv_init: 'normal', conv_scale: 0.02, conv_bias: 0.}\n"
      "  lambda_rho: 0\n"
      "  full_scale: True\n"
      "  global_batch_size: 64\n"
      "  base_batch_size: 64\n"
      "  Nsamples: 65536\n"
      "  Nsamples_val: 8192\n"
      "  num_epochs: 10\n"
      "  enable_amp: False\n"
      "  enable_apex: False\n"
      "  enable_benchy: False\n"
      "  enable_jit: False\n"
      "  expdir: '/logs'\n"
      "  lr_schedule: {scaling: 'sqrt', start_lr: 2.E-4, end_lr: 0., warmup_steps: 128}\n"
      "  data_loader_config: 'lowmem'\n"
      "  box_size: [1024, 512]\n"
      "  data_size: 64\n"
      "  num_data_workers: 2\n"
      "  N_out_channels: 5\n"
      "  train_path: '/data/train.h5'\n"
      "  val_path: '/data/valid.h5'\n"
      "  train_path_npy_data: '/data/train_data.npy'\n"
      "  train_path_npy_label: '/data/train_label.npy'\n"
      "  val_path_npy_data: '/data/valid_data.npy'\n"
      "  val_path_npy_label: '/data/valid_label.npy'\n"
      "  use_cache: None\n"
      "large:\n"
      "  <<: *base\n"
      "  data_loader_config: 'dali-lowmem'\n"
      "  global_batch_size: 512\n"
      "  num_epochs: 40\n"
      "  enable_amp: True\n"
      "  lr_schedule: {scaling: 'linear', start_lr: 1.E-4, end_lr: 1.E-5, warmup_steps: 9}\n";

  void expect(const RunConfig& config, const std::map<std::string, std::string>& values) const {
    for (const auto& [key, value] : values) EXPECT_EQ(value_of(config, key), value) << key;
  }
  // Message about the base configuration with a line more.
  [[nodiscard]] std::string refusal(const std::string& line) const {
    return testing::message_of<InputError>([&] {
      (void)load("base:\n  Nsamples: 64\n  Nsamples_val: 8\n  lr_schedule: {start_lr: 0.1}\n  " +
                     line + "\n",
                 {}, "base");
    });
  }
};

TEST_F(CourseFile, IsTakenAsItStands) {
  expect(load(text, {}, "base"), {{"output_dir", "/logs/base"},
                                  {"data.name", "nbody"},
                                  {"data.mode", "lowmem"},
                                  {"data.train_path", "/data/train.h5"},
                                  {"data.valid_path", "/data/valid.h5"},
                                  {"data.n_train", "65536"},
                                  {"data.n_valid", "8192"},
                                  {"data.crop", "64"},
                                  {"data.workers", "2"},
                                  {"data.box_size", "1024"},
                                  {"model.name", "unet3d"},
                                  {"model.full_scale", "true"},
                                  {"optimizer.name", "adam"},
                                  {"optimizer.lr_scaling", "sqrt"},
                                  {"training.loss", "l1"},
                                  {"training.global_batch_size", "64"},
                                  {"training.base_batch_size", "64"},
                                  {"training.n_epochs", "10"},
                                  {"training.lr_warmup_steps", "128"},
                                  {"training.lr_warmup_when", "scaled"},
                                  {"training.lr_decay", "cosine_shifted"},
                                  {"training.precision", "fp32"}});
  EXPECT_EQ(load(text, {}, "base").optimizer.lr, 2e-4);
}

TEST_F(CourseFile, MixedPrecisionAndArraysGoWithTheirNames) {
  const auto config = load(text, {"training.n_epochs=3"}, "large");
  expect(config, {{"data.mode", "lowmem"},
                  {"data.train_path", "/data/train_data.npy"},
                  {"data.valid_path", "/data/valid_data.npy"},
                  {"training.precision", "bf16"},
                  {"training.global_batch_size", "512"},
                  {"training.n_epochs", "3"},
                  {"optimizer.lr_scaling", "linear"}});
  EXPECT_NEAR(std::stod(value_of(config, "training.lr_final_fraction")), .1, 1e-12);
}

TEST_F(CourseFile, WhatCanNotBeTakenGetsAMessageEach) {
  EXPECT_TRUE(says(
      refusal("Nsample: 64"),
      {"run.yaml:5: Nsample: unknown in a file of NERSC's U-Net tutorial", "configs/unet3d.yaml"}));
  EXPECT_TRUE(says(refusal("weight_init: {conv_init: 'uniform'}"),
                   {"run.yaml:5: weight_init.conv_init: kolo's U-Net has normal"}));
  EXPECT_TRUE(
      says(refusal("N_out_channels: 4"), {"run.yaml:5: N_out_channels: kolo's U-Net has 5"}));
  EXPECT_TRUE(says(refusal("use_cache: '/tmp'"), {"KOLO_STAGE"}));
  EXPECT_TRUE(says(refusal("enable_amp: yes please"), {"enable_amp: expected true or false"}));
  EXPECT_TRUE(says(refusal("data_loader_config: 'dalli'"), {"data.mode"}));
  EXPECT_TRUE(says(refusal("num_epochs: none"), {"training.n_epochs"}));
}

}  // namespace
}  // namespace kolo
