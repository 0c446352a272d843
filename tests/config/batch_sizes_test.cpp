// batch_size, local_batch_size and global_batch_size.
#include "config/config_fixture.h"
#include "kolo/config/factories.h"
#include "kolo/data/dataset.h"
#include "kolo/data/loader.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo {
namespace {

class BatchSizes : public testing::ConfigTest {
 protected:
  [[nodiscard]] TrainingConfig training(const std::string& text, Overrides overrides = {}) const {
    return load(std::string(required) + "training: {" + text + "}\n", std::move(overrides))
        .training;
  }
};

TEST_F(BatchSizes, AreThoseOfARankOrOfAll) {
  EXPECT_EQ(batch_size_of(training(""), 8), 64);
  EXPECT_EQ(batch_size_of(training("batch_size: 12"), 8), 12);
  EXPECT_EQ(batch_size_of(training("local_batch_size: 12"), 8), 12);
  EXPECT_EQ(batch_size_of(training("global_batch_size: 96"), 8), 12);
  EXPECT_EQ(batch_size_of(training("global_batch_size: 96, batch_size: 12",
                                   {"training.global_batch_size=null"}),
                          8),
            12);
}

// Batches of so many samples in the validation of images with sides of `side`.
std::int64_t validation_batches(const RunConfig& config, std::int64_t side, std::int64_t samples) {
  const SampleLayout layout{{3, side, side}, 10, {}};
  return make_validation_loader(config, std::make_shared<RandomDataset>(layout, samples, 1), 0, 1)
      ->batches();
}

TEST_F(BatchSizes, OfAValidationFitTheSizeOfImages) {
  const auto config = load(std::string(required) + "training: {batch_size: 16}\n");
  EXPECT_EQ(validation_batches(config, 32, 1000), 1);
  EXPECT_EQ(validation_batches(config, 32, 1001), 2);
  EXPECT_EQ(validation_batches(config, 224, 27), 1) << "4 million numbers";
  EXPECT_EQ(validation_batches(config, 224, 28), 2);
  EXPECT_EQ(validation_batches(config, 1024, 16), 1) << "not fewer than in training";
  EXPECT_EQ(validation_batches(config, 1024, 17), 2);
}

TEST_F(BatchSizes, OfAFileAreOneOnly) {
  EXPECT_THAT(error_after_required("training:\n  global_batch_size: 64\n  local_batch_size: 16\n"),
              AllOf(StartsWith("run.yaml:5: "), HasSubstr("training.local_batch_size"),
                    HasSubstr("training.global_batch_size")));
  EXPECT_TRUE(says(error_after_required("training: {batch_size: 64, local_batch_size: 16}\n"),
                   {"both say how large a batch is"}));
}

TEST_F(BatchSizes, OfTheCommandLineWin) {
  const auto local = training("global_batch_size: 64", {"training.local_batch_size=3"});
  EXPECT_EQ(batch_size_of(local, 5), 3);
  const auto global = training("batch_size: 64", {"training.global_batch_size=10"});
  EXPECT_EQ(batch_size_of(global, 5), 2);
  EXPECT_EQ(global.batch_size, std::nullopt);
  EXPECT_THAT(error_after_required("", {"training.batch_size=3", "training.global_batch_size=6"}),
              StartsWith("command line: training.batch_size and training.global_batch_size"));
}

TEST_F(BatchSizes, SayWhatWouldFit) {
  const auto config = training("global_batch_size: 64");
  EXPECT_TRUE(says(testing::message_of<InputError>([&] { (void)batch_size_of(config, 3); }),
                   {"64 samples can't be shared evenly by 3 ranks", "a batch of 63 or 66 can"}));
  EXPECT_TRUE(says(testing::message_of<InputError>([&] { (void)batch_size_of(config, 65); }),
                   {"a batch of 65 can"}));
}

TEST_F(BatchSizes, DecideHowTheRateIsScaled) {
  EXPECT_EQ(batch_ratio_of(training("batch_size: 12"), 8), 8);
  EXPECT_EQ(batch_ratio_of(training("global_batch_size: 96"), 8), 8);
  EXPECT_EQ(batch_ratio_of(training("global_batch_size: 96, base_batch_size: 24"), 8), 4);
  EXPECT_EQ(batch_ratio_of(training("batch_size: 12, base_batch_size: 192"), 8), .5);
}

}  // namespace
}  // namespace kolo
