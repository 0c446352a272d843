// Training of the image networks, end to end through the binary.
#include "cli/shipped_configurations.h"
#include "cli/small_runs.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

class ImageTraining : public Runs {
 protected:
  ImageTraining()
      : Runs(
            "data: {name: dummy, input_shape: [16, 16, 3], n_train: 32, n_valid: 20}\n"
            "model: {name: resnet_small, n_classes: 7}\n"
            "optimizer: {name: SGD, momentum: 0.9}\n"
            "training: {batch_size: 8, metrics: [accuracy, top_k_categorical_accuracy]}\n") {}
};

TEST_F(ImageTraining, ShowsTheModelAndTheTopFive) {
  ASSERT_TRUE(succeeds(train({"-n", "2", "--batch_size", "4", "--n_epochs", "2", "--optimizer",
                              "name=RMSprop,lr=0.0001", "model.sync_batch_norm=true",
                              "training.label_smoothing=0.1"}),
                       {"optimizer rmsprop (epsilon 1e-07, added as in Keras), batch 4 per rank",
                        "top 5", "model.txt"}));
  const auto trained = history();
  const auto epochs = trained.epochs();
  ASSERT_EQ(epochs.size(), 3U);
  EXPECT_GE(epochs[2].val_top_accuracy, epochs[2].val_accuracy);
  EXPECT_TRUE(std::filesystem::file_size(folder / "run" / "model.txt") > 1000);
}

TEST_F(ImageTraining, ANetworkWithBatchNormGoesOnToTheSameBits) {
  ASSERT_EQ(train({"-n", "2", "--n_epochs", "2"}).exit_code, 0);
  const auto whole = history();
  std::filesystem::remove_all(checkpoint(4).parent_path());
  ASSERT_TRUE(succeeds(train({"-n", "2", "--n_epochs", "2", "--resume"})));
  const auto resumed = history();
  ASSERT_EQ(resumed.epochs().size(), whole.epochs().size());
  EXPECT_EQ(resumed.epochs()[2].loss, whole.epochs()[2].loss);
  EXPECT_EQ(resumed.epochs()[2].val_loss, whole.epochs()[2].val_loss);
}

// Found when the run has begun: it is no mistake of the user's any more, and may be tried again.
TEST_F(ShippedConfigurations, AnImageThatIsCutOffFailsTheRun) {
  make("images", "4");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "data" / "train"))
    if (entry.path().filename() == "5_sandal_00002.jpg")
      std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
  const auto config = folder.write(
      "cut.yaml", "data: {name: imagenet, train_dir: " + data + "/train, valid_dir: " + data +
                      "/valid, input_shape: [3, 32, 32]}\nmodel: {name: cnn}\n"
                      "optimizer: {name: sgd, lr: 1.e-5}\ntraining: {batch_size: 4, n_epochs: 1}\n"
                      "device: {intra_threads: 1}\n");
  const auto result =
      run_kolo({"train", config, "-o", folder / "run", "-n", "2", "--max-restarts", "1"});
  EXPECT_EQ(result.exit_code, 1) << result.errors;
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("cannot decode"), HasSubstr("5_sandal_00002.jpg"),
                    HasSubstr("restart 1 of 1"), ::testing::Not(HasSubstr("watch: "))));
}

}  // namespace
}  // namespace kolo::testing
