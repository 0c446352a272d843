// configs/unet3d.yaml has the numbers of NERSC's tutorial ml-pm-training-2022.
#include <cmath>
#include <numbers>

#include "config/config_fixture.h"
#include "kolo/config/factories.h"
#include "support/says.h"

namespace kolo {
namespace {

struct Tutorial {
  const char* name;
  std::int64_t global_batch, samples, samples_valid, epochs;
  bool is_mixed;
};

constexpr Tutorial tutorials[] = {
    {"base", 64, 65536, 8192, 10, false},        {"short", 64, 4096, 512, 4, false},
    {"short_opt", 64, 4096, 512, 4, true},       {"bs64_opt", 64, 65536, 8192, 10, true},
    {"bs256_opt", 256, 65536, 8192, 20, true},   {"bs512_test", 512, 65536, 8192, 10, true},
    {"bs512_opt", 512, 65536, 8192, 40, true},   {"bs2048_opt", 2048, 65536, 8192, 160, true},
    {"bs8192_opt", 8192, 65536, 8192, 320, true}};

RunConfig load(const std::string& name, std::vector<std::string> overrides = {}) {
  return load_run_config({std::string(KOLO_CONFIGS) + "/unet3d.yaml", name, std::move(overrides)});
}

// The rate of the tutorial's iteration i, counted from 1: sqrt scaling by the global batch over 64;
// where that is more than one, a warm-up of 128 steps from zero. The cosine runs over all steps,
// from the warm-up's end.
double tutorial_rate(std::int64_t i, std::int64_t global_batch, std::int64_t total_steps) {
  const double scaled = 2e-4 * std::sqrt(static_cast<double>(global_batch) / 64);
  const std::int64_t warmup = global_batch > 64 ? 128 : 0;
  if (i < warmup) return scaled * static_cast<double>(i) / static_cast<double>(warmup);
  const double angle = std::numbers::pi * static_cast<double>(i - warmup);
  return .5 * scaled * (1 + std::cos(angle / static_cast<double>(total_steps)));
}

void expect_trace(const RunConfig& config, int ranks, std::int64_t global_batch) {
  const auto steps_per_epoch = *config.data.n_train / global_batch;
  const auto total = config.training.n_epochs * steps_per_epoch;
  const auto rate = make_learning_rate(config, ranks, steps_per_epoch);
  for (std::int64_t i = 1; i <= total; ++i) {
    const double expected = tutorial_rate(i, global_batch, total);
    // Near the cosine's end the rate is a small difference of ones, each rounded.
    const double rounding = 3e-16 * rate.scaled_rate();
    ASSERT_NEAR(rate.at(i - 1), expected, 1e-12 * expected + rounding) << "step " << i;
  }
}

TEST(Unet3dConfigs, HaveTheTutorialsNumbers) {
  for (const Tutorial& tutorial : tutorials) {
    SCOPED_TRACE(tutorial.name);
    const RunConfig config = load(tutorial.name);
    EXPECT_EQ(config.training.global_batch_size, tutorial.global_batch);
    EXPECT_EQ(config.training.base_batch_size, 64);
    EXPECT_EQ(config.training.n_epochs, tutorial.epochs);
    EXPECT_EQ(config.data.n_train, tutorial.samples);
    EXPECT_EQ(config.data.n_valid, tutorial.samples_valid);
    for (const auto& [key, value] : {std::pair("data.crop", "64"),
                                     {"model.full_scale", "true"},
                                     {"optimizer.epsilon", "1e-08"}})
      EXPECT_THAT(settings_of(config), ::testing::Contains(::testing::Pair(key, value)));
    EXPECT_EQ(config.training.loss, "l1");
    EXPECT_EQ(config.training.precision, tutorial.is_mixed ? Precision::bf16 : Precision::fp32);
  }
}

TEST(Unet3dConfigs, FollowTheTutorialsLearningRate) {
  for (const Tutorial& tutorial : tutorials) {
    for (const int ranks : {1, 2, 4, 8}) {
      SCOPED_TRACE(::testing::Message() << tutorial.name << " on " << ranks << " ranks");
      const RunConfig config = load(tutorial.name);
      EXPECT_EQ(batch_size_of(config.training, ranks), tutorial.global_batch / ranks);
      expect_trace(config, ranks, tutorial.global_batch);
      // The tutorial's --local_batch_size makes the global batch grow with the ranks.
      const RunConfig local = load(tutorial.name, {"training.local_batch_size=32"});
      expect_trace(local, ranks, std::int64_t{32} * ranks);
    }
  }
}

TEST(Unet3dConfigs, AreToBeChosenByName) {
  EXPECT_TRUE(
      says(testing::message_of<InputError>([] {
             (void)load_run_config({std::string(KOLO_CONFIGS) + "/unet3d.yaml", std::nullopt, {}});
           }),
           {"choose one with --config NAME: base, short, short_opt, bs64_opt, "
            "bs256_opt, bs512_test, bs512_opt, bs2048_opt, bs8192_opt, tiny"}));
}

TEST(ShippedConfigurations, AllLoad) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KOLO_CONFIGS)) {
    if (entry.path().extension() != ".yaml") continue;
    const auto stem = entry.path().stem().string();
    std::optional<std::string> name;      // of one of several
    if (stem == "unet3d") name = "tiny";  // all of its configurations have a test of their own
    if (stem == "tutorial") name = "warmup";
    const RunConfig config = load_run_config({entry.path(), name, {}});
    EXPECT_FALSE(config.description.empty()) << entry.path();
    EXPECT_EQ(config.output_dir, "results/" + stem + (name ? "-" + *name : ""));
    ++count;
  }
  EXPECT_GE(count, 6);
}

TEST(ShippedConfigurations, HaveTheTutorialsParameters) {
  const std::filesystem::path configs = KOLO_CONFIGS;
  const RunConfig resnet = load_run_config({configs / "cifar10_resnet.yaml", {}, {}});
  EXPECT_EQ(resnet.training.batch_size, 64);
  EXPECT_EQ(resnet.training.n_epochs, 32);
  EXPECT_EQ(resnet.training.lr_warmup_epochs, 5);
  EXPECT_EQ(resnet.optimizer.name, "adam");
  EXPECT_EQ(resnet.optimizer.lr, 0.0001);
  EXPECT_EQ(resnet.optimizer.lr_scaling, Scaling::linear);
  const RunConfig mnist = load_run_config({configs / "mnist_net.yaml", {}, {}});
  EXPECT_EQ(mnist.training.batch_size, 64);
  EXPECT_EQ(mnist.optimizer.name, "sgd");
  EXPECT_EQ(mnist.optimizer.lr, 0.01);
  EXPECT_THAT(settings_of(mnist),
              ::testing::Contains(::testing::Pair("optimizer.momentum", "0.5")));
}

}  // namespace
}  // namespace kolo
