// Training of the image networks, end to end through the binary.
#include <cmath>

#include <gmock/gmock.h>
#include <torch/script.h>

#include "cli/shipped_configurations.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ImageTraining : public ::testing::Test {
 protected:
  ProcessResult train(std::vector<std::string> arguments) {
    std::vector<std::string> all = {"train", config};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.end(), {"--output", (folder / "run").string()});
    return run_kolo(all);
  }

  TemporaryFolder folder;
  std::string config = folder.write("images.yaml",
                                    "data: {name: dummy, input_shape: [16, 16, 3], n_train: 32, "
                                    "n_valid: 20}\n"
                                    "model: {name: resnet_small, n_classes: 7}\n"
                                    "optimizer: {name: SGD, momentum: 0.9}\n"
                                    "training: {batch_size: 8, metrics: [accuracy, "
                                    "top_k_categorical_accuracy]}\n");
};

TEST_F(ImageTraining, ShowsTheModelAndTheTopFive) {
  const auto result = train({"-n", "2", "--batch_size", "4", "--n_epochs", "2", "--optimizer",
                             "name=RMSprop,lr=0.0001", "model.sync_batch_norm=true",
                             "training.label_smoothing=0.1"});
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_TRUE(
      says(result.output, {"optimizer rmsprop (epsilon 1e-07, added as in Keras), batch 4 per rank",
                           "top 5", "model.txt"}));
  const auto history = History::read(folder / "run" / "history.json");
  ASSERT_EQ(history.epochs().size(), 3U);
  EXPECT_GE(history.epochs()[2].val_top_accuracy, history.epochs()[2].val_accuracy);
  EXPECT_TRUE(std::filesystem::file_size(folder / "run" / "model.txt") > 1000);
}

// As torch.jit.script writes it; trained, and loadable again with what it has learned.
TEST_F(ImageTraining, AScriptedNetworkIsTrainedAndSavedBack) {
  torch::manual_seed(1);
  torch::jit::Module script("Classifier");
  script.register_attribute("training", c10::BoolType::get(), true);
  const auto weight = torch::randn({7, 3 * 16 * 16}, torch::requires_grad());
  script.register_parameter("weight", weight, false);
  script.define("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight.t())\n");
  const auto file = (folder / "script.pt").string();
  script.save(file);

  const auto result = train({"-n", "2", "model.name=torchscript", "model.file=" + file});
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  auto trained = torch::jit::load((folder / "run" / "model.pt").string());
  const auto learned = trained.attr("weight").toTensor();
  EXPECT_FALSE(learned.allclose(weight));
  const auto x = torch::ones({2, 3, 16, 16});
  EXPECT_TRUE(trained.forward({x}).toTensor().allclose(x.flatten(1).matmul(learned.t())));
  EXPECT_EQ(run_kolo({"eval", (folder / "run").string()}).exit_code, 0);
}

TEST_F(ImageTraining, ANetworkWithBatchNormGoesOnToTheSameBits) {
  const std::vector<std::string> steady = {"-n", "2", "--n_epochs", "2"};
  ASSERT_EQ(train(steady).exit_code, 0);
  const auto whole = History::read(folder / "run" / "history.json");
  ASSERT_EQ(train({"-n", "2", "--n_epochs", "1"}).exit_code, 0);
  const auto rest = train({"-n", "2", "--n_epochs", "2", "--resume"});
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  const auto resumed = History::read(folder / "run" / "history.json");
  ASSERT_EQ(resumed.epochs().size(), whole.epochs().size());
  EXPECT_EQ(resumed.epochs()[2].loss, whole.epochs()[2].loss);
  EXPECT_EQ(resumed.epochs()[2].val_loss, whole.epochs()[2].val_loss);
}

TEST_F(ShippedConfigurations, ResNet50LearnsFromJpegFilesAt224) {
  make("images", "10");
  const auto history = train(
      "imagenet_resnet.yaml",
      {"data.train_dir=" + data + "/train", "data.valid_dir=" + data + "/valid", "data.n_train=8",
       "data.n_valid=2", "model.n_classes=10", "training.n_epochs=1", "training.batch_size=4"});
  ASSERT_EQ(history.epochs().size(), 2U);  // and before the first
  EXPECT_TRUE(std::isfinite(history.epochs()[1].loss));
  EXPECT_TRUE(std::isfinite(history.epochs()[1].val_loss));
  EXPECT_EQ(run_kolo({"eval", (folder / "run").string(), "-n", "2"}).exit_code, 0);
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
  const std::vector<std::vector<std::string>> ways = {{}, {"-n", "2", "--max-restarts", "1"}};
  for (const auto& way : ways) {
    std::vector<std::string> words = {"train", config, "-o", folder / "run"};
    words.insert(words.end(), way.begin(), way.end());
    const auto result = run_kolo(words);
    EXPECT_EQ(result.exit_code, 1) << result.errors;
    EXPECT_THAT(result.errors, AllOf(HasSubstr("cannot decode"), HasSubstr("5_sandal_00002.jpg"),
                                     ::testing::Not(HasSubstr("watch: "))));
    EXPECT_EQ(result.errors.find("restart 1 of 1") != std::string::npos, !way.empty());
  }
}

}  // namespace
}  // namespace kolo::testing
