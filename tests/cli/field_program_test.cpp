// Training of fields through the binary: kolo train and kolo eval without accuracy.
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "kolo/train/observe/history.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// Random boxes and a very small U-Net.
class FieldProgram : public ::testing::Test {
 protected:
  [[nodiscard]] ProcessResult train(const std::vector<std::string>& more) const {
    return run_kolo(joined({"train", config_, "--output", run()}, more));
  }
  [[nodiscard]] std::string run() const { return (folder_ / "run").string(); }

  TemporaryFolder folder_;
  std::string config_ = folder_.write(
      "fields.yaml",
      "data: {name: nbody, mode: synthetic, box_size: 24, crop: 16, n_train: 24, n_valid: 5}\n"
      "model: {name: unet3d, levels: 3, channels: 4}\n"
      "optimizer: {name: adam, lr: 0.001, lr_scaling: sqrt, epsilon: 1.0e-8}\n"
      "training: {loss: l1, global_batch_size: 4, base_batch_size: 2, n_epochs: 2, "
      "lr_warmup_steps: 3, lr_warmup_from: 0, lr_warmup_when: scaled, lr_decay: cosine_shifted}\n");
};

TEST_F(FieldProgram, TrainsAndTellsTheLossAlone) {
  const auto result = train({"-n", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("best validation loss "), HasSubstr(" crops/s"),
                                   HasSubstr("batch 2 per rank (4 in all)"),
                                   HasSubstr("peak memory of rank 0"), Not(HasSubstr("accuracy"))));
  const auto history = History::read(folder_ / "run" / "history.json");
  ASSERT_EQ(history.epochs().size(), 3U);
  EXPECT_EQ(history.epochs()[2].step, 12);
  EXPECT_TRUE(std::isnan(history.epochs()[2].val_accuracy));

  const auto eval = run_kolo({"eval", run(), "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.errors;
  const auto json = nlohmann::json::parse(eval.output);
  EXPECT_EQ(json["samples"], 5);
  EXPECT_NEAR(json["loss"].get<double>(), history.summary().at("best_val_loss").get<double>(),
              1e-6);
  EXPECT_FALSE(json.contains("accuracy"));
  // Three ranks can't share the global batch, but any number can evaluate.
  EXPECT_EQ(run_kolo({"eval", run(), "-n", "3", "--oversubscribe"}).exit_code, 0);
}

TEST_F(FieldProgram, GoesOnToTheSameBitsAndRanksMayShareSamples) {
  ASSERT_EQ(train({"checkpoint.keep=9", "checkpoint.every_steps=4"}).exit_code, 0);
  const auto whole = History::read(folder_ / "run" / "history.json");
  std::filesystem::remove_all(folder_ / "run" / "checkpoints" / "step-00000012");
  ASSERT_TRUE(succeeds(train({"--resume"})));
  EXPECT_EQ(History::read(folder_ / "run" / "history.json").epochs()[2].val_loss,
            whole.epochs()[2].val_loss);

  ASSERT_TRUE(succeeds(
      train({"-n", "4", "--oversubscribe", "parallel.spatial=[2,1,1]"}),
      {"2 ranks share a sample, cut as [2,1,1]; 2 replicas", "batch 2 per replica (4 in all)"}));
  const auto shared = History::read(folder_ / "run" / "history.json");
  for (std::size_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_NEAR(shared.epochs()[epoch].val_loss, whole.epochs()[epoch].val_loss, 1e-4);
  const auto eval = run_kolo({"eval", run(), "--json"});
  EXPECT_NEAR(nlohmann::json::parse(eval.output)["loss"].get<double>(),
              shared.summary().at("best_val_loss").get<double>(), 1e-5);
}

TEST_F(FieldProgram, TrainsInBf16) {
  EXPECT_TRUE(succeeds(train({"training.precision=bf16"}), {"computed in bf16"}));
}

}  // namespace
}  // namespace kolo::testing
