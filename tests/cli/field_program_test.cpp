// Training of fields through the binary: kolo train and kolo eval without accuracy.
#include "cli/small_runs.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

// Random boxes and a very small U-Net.
class FieldProgram : public Runs {
 protected:
  FieldProgram()
      : Runs(
            "data: {name: nbody, mode: synthetic, box_size: 24, crop: 16, n_train: 24, "
            "n_valid: 5}\n"
            "model: {name: unet3d, levels: 3, channels: 4}\n"
            "optimizer: {name: adam, lr: 0.001, lr_scaling: sqrt, epsilon: 1.0e-8}\n"
            "training: {loss: l1, global_batch_size: 4, base_batch_size: 2, n_epochs: 2, "
            "lr_warmup_steps: 3, lr_warmup_from: 0, lr_warmup_when: scaled, lr_decay: "
            "cosine_shifted}\n") {}

  [[nodiscard]] nlohmann::json measured() const { return json_of({"eval", folder / "run"}); }
};

TEST_F(FieldProgram, TrainsAndTellsTheLossAlone) {
  const auto result = train({"-n", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("best validation loss "), HasSubstr(" crops/s"),
                                   HasSubstr("batch 2 per rank (4 in all)"),
                                   HasSubstr("peak memory of rank 0"), Not(HasSubstr("accuracy"))));
  const auto trained = history();
  ASSERT_EQ(trained.epochs().size(), 3U);
  EXPECT_EQ(trained.epochs()[2].step, 12);
  EXPECT_TRUE(std::isnan(trained.epochs()[2].val_accuracy));

  const auto json = measured();
  EXPECT_EQ(json["samples"], 5);
  EXPECT_NEAR(json["loss"].get<double>(), trained.summary().at("best_val_loss").get<double>(),
              1e-6);
  EXPECT_FALSE(json.contains("accuracy"));
  // Three ranks can't share the global batch, but any number can evaluate.
  EXPECT_EQ(run_kolo({"eval", folder / "run", "-n", "3", "--oversubscribe"}).exit_code, 0);
}

TEST_F(FieldProgram, GoesOnToTheSameBitsAndRanksMayShareSamples) {
  ASSERT_EQ(train({"checkpoint.keep=9", "checkpoint.every_steps=4"}).exit_code, 0);
  const auto whole = history();
  std::filesystem::remove_all(checkpoint(12).parent_path());
  ASSERT_TRUE(succeeds(train({"--resume"})));
  EXPECT_EQ(history().epochs()[2].val_loss, whole.epochs()[2].val_loss);

  ASSERT_TRUE(succeeds(
      train({"-n", "4", "--oversubscribe", "parallel.spatial=[2,1,1]"}),
      {"2 ranks share a sample, cut as [2,1,1]; 2 replicas", "batch 2 per replica (4 in all)"}));
  const auto shared = history();
  for (std::size_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_NEAR(shared.epochs()[epoch].val_loss, whole.epochs()[epoch].val_loss, 1e-4);
  EXPECT_NEAR(measured()["loss"].get<double>(), shared.summary().at("best_val_loss").get<double>(),
              1e-5);
}

TEST_F(FieldProgram, TrainsInBf16) {
  EXPECT_TRUE(succeeds(train({"training.precision=bf16"}), {"computed in bf16"}));
}

}  // namespace
}  // namespace kolo::testing
