// Runs on folders in which some images are damaged.
#include <filesystem>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "data/images/image_files.h"
#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "kolo/run/evaluate_run.h"
#include "kolo/run/launch_environment.h"
#include "kolo/run/run.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/history.h"
#include "run/field_runs.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::Each;

class BadSamplesOfRuns : public ::testing::Test {
 protected:
  // 24 images to train on, 6 to validate.
  void write_images() {
    std::mt19937 random(7);
    for (const auto& [part, each] : {std::pair("train", 12), {"valid", 3}}) {
      for (const auto* name : {"a", "b"}) {
        for (int i = 0; i < each; ++i) {
          std::string pixels(192, '\0');
          for (auto& value : pixels) value = static_cast<char>(random());
          write(std::string(part) + "/" + name + "/" + std::to_string(10 + i),
                png_file(8, 8, pixels));
        }
      }
    }
  }
  void write(const std::string& name, const std::string& bytes) const {
    folder_.write("images/" + name + ".png", bytes);
  }

  std::vector<int> train(const std::string& run, int ranks, std::vector<std::string> settings,
                         const std::optional<std::string>& resume = std::nullopt,
                         const std::function<bool()>& stop = {}) {
    settings.push_back("data.train_dir=" + (folder_ / "images/train").string());
    settings.push_back("data.valid_dir=" + (folder_ / "images/valid").string());
    const ConfigSource source{config_, {}, settings, {}, folder_ / run};
    std::vector<int> statuses(static_cast<std::size_t>(ranks));
    console_.str("");
    run_as_threads(ranks, [&](const Communicator& communicator) {
      RunOptions options;
      options.console = &console_;
      options.resume = resume;
      options.stop_requested = [&] { return stop && stop(); };
      options.communicator = communicator;
      statuses.at(static_cast<std::size_t>(communicator.rank())) = kolo::run(source, {}, options);
    });
    return statuses;
  }
  [[nodiscard]] History history(const std::string& run) const {
    return History::read(folder_ / run / "history.json");
  }

  TemporaryFolder folder_;
  std::filesystem::path config_ = folder_.write(
      "images.yaml",
      "data: {name: imagenet, input_shape: [3, 32, 32], workers: 2}\nmodel: {name: cnn}\n"
      "optimizer: {name: sgd, lr: 0.001, lr_scaling: none}\n"
      "training: {batch_size: 2, n_epochs: 2, log_every: 1}\ndevice: {kind: cpu}\n");
  std::ostringstream console_;
};

TEST_F(BadSamplesOfRuns, AreCountedOnAnyNumberOfRanks) {
  write_images();
  write("train/b/21", "GIF89a");
  write("valid/b/10", "");
  const std::vector<std::string> skip{"data.bad_samples=skip"};
  for (const int ranks : {1, 2, 3}) {
    const auto run = "run" + std::to_string(ranks);
    ASSERT_THAT(train(run, ranks, skip), Each(0));
    const auto read = history(run);
    for (const auto& epoch : read.epochs()) {
      if (epoch.epoch == 0) continue;
      EXPECT_EQ(epoch.bad_samples, 1) << ranks;
      EXPECT_EQ(epoch.val_bad_samples, 1) << ranks;
    }
    EXPECT_TRUE(says(
        console_.str(),
        {"1 samples of the training and 1 of the validation can't be read", "21.png", "10.png"}));
  }
  // What was measured before training: each sample once, so whatever the ranks.
  EXPECT_NEAR(history("run1").epochs()[0].val_loss, history("run3").epochs()[0].val_loss, 1e-4);
}

TEST_F(BadSamplesOfRuns, EndARunWithTheFilesNameUnlessTheyAreSkipped) {
  write_images();
  write("train/b/15", png_signature + "cut off");
  EXPECT_TRUE(says(message_of<std::exception>([&] { (void)train("run", 1, {}); }),
                   {"train/b/15.png", "data.bad_samples: skip"}));
}

TEST_F(BadSamplesOfRuns, EndARunWhereThereAreTooMany) {
  write_images();
  const std::vector<std::string> skip{"data.bad_samples=skip"};
  write("train/a/11", png_signature + "nothing");
  EXPECT_THAT(train("few", 1, skip), Each(0));
  write("train/a/12", png_signature + "nothing");
  EXPECT_TRUE(says(message_of<std::exception>([&] { (void)train("many", 1, skip); }),
                   {"2 of 24 samples can't be read", "more than one in a hundred", "/a/1"}));
}

TEST_F(BadSamplesOfRuns, ARunThatGoesOnComesToTheSameBitsAndCounts) {
  write_images();
  write("train/b/20", png_signature + "nothing");
  const std::vector<std::string> skip{"data.bad_samples=skip"};
  ASSERT_THAT(train("whole", 1, skip), Each(0));
  EXPECT_FALSE(says(console_.str(), {"resuming"}));
  int asked = 0;
  ASSERT_THAT(train("parts", 1, skip, {}, [&] { return ++asked == 17; }), Each(exit_stopped));
  ASSERT_THAT(train("parts", 1, skip, "newest"), Each(0));
  const auto whole = history("whole"), parts = history("parts");
  ASSERT_EQ(whole.epochs().size(), parts.epochs().size());
  for (std::size_t i = 1; i < whole.epochs().size(); ++i) {
    EXPECT_EQ(parts.epochs()[i].bad_samples, 1);
    EXPECT_EQ(parts.epochs()[i].loss, whole.epochs()[i].loss);
    EXPECT_EQ(parts.epochs()[i].val_loss, whole.epochs()[i].val_loss);
  }
}

TEST_F(BadSamplesOfRuns, AreCountedInAnEvaluation) {
  write_images();
  const std::vector<std::string> skip{"data.bad_samples=skip"};
  ASSERT_THAT(train("run", 1, skip), Each(0));
  write("valid/a/11", png_signature + "nothing");
  RunOptions options;
  options.console = &console_;
  double replaced = -1;
  EXPECT_EQ(evaluate_run(
                {.path = folder_ / "run"},
                [&](const RunEvaluation& found) { replaced = found.sums.replaced; }, {}, options),
            0);
  EXPECT_EQ(replaced, 1);
}

// Random fields. Of some the first plane along the first axis can't be read.
class DamagedFields final : public Dataset {
 public:
  DamagedFields(std::int64_t samples, std::set<std::int64_t> damaged, std::uint64_t seed)
      : fields_(std::make_shared<RandomDataset>(SampleLayout{{4, 32, 32, 32}, 0, {5, 32, 32, 32}},
                                                samples, seed)),
        damaged_(std::move(damaged)) {}

  [[nodiscard]] std::int64_t size() const override { return fields_->size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return fields_->layout(); }
  void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const override {
    if (has_first_plane_ && damaged_.contains(index))
      throw InputError("field " + std::to_string(index) + " is damaged");
    fields_->read(index, epoch, place);
  }
  // Reads its rows alone, and so nothing of the damage where the first plane is another's.
  [[nodiscard]] std::shared_ptr<const Dataset> part(std::span<const RowRange> rows) const override {
    auto part = std::make_shared<DamagedFields>(*this);
    part->fields_ = part_of_samples(fields_, rows);
    part->has_first_plane_ = rows[0].begin == 0;
    return part;
  }

 private:
  std::shared_ptr<const Dataset> fields_;
  std::set<std::int64_t> damaged_;
  bool has_first_plane_ = true;
};

class BadSamplesOfFields : public FieldRuns {
 protected:
  BadSamplesOfFields() {
    datasets_ = [](const RunConfig& config, const DataReading&) {
      return Datasets{std::make_shared<DamagedFields>(8, std::set<std::int64_t>{2}, config.seed),
                      std::make_shared<DamagedFields>(2, std::set<std::int64_t>{1}, 99)};
    };
  }
  static std::vector<std::string> skipping(std::vector<std::string> settings) {
    settings.emplace_back("data.bad_samples=skip");
    return settings;
  }
  void expect_counts(const std::string& folder, std::size_t epochs) const {
    const auto history = History::read(folder_ / folder / "history.json");
    ASSERT_EQ(history.epochs().size(), epochs + 1);
    for (std::size_t epoch = 1; epoch <= epochs; ++epoch) {
      EXPECT_EQ(history.epochs()[epoch].bad_samples, 1) << epoch;
      EXPECT_EQ(history.epochs()[epoch].val_bad_samples, 1) << epoch;
    }
  }
};

// Whoever has parts of a sample or of the network takes the same sample in its place, also one
// whose own part could be read, and it counts once.
TEST_F(BadSamplesOfFields, AreReplacedAlikeByRanksThatShareSamplesOrLayers) {
  const std::string one_epoch = "training.n_epochs=1";
  train("whole", 1, skipping({one_epoch}));
  expect_counts("whole", 1);
  const std::vector<std::pair<int, std::vector<std::string>>> layouts{
      {2, {"parallel.spatial=[2,1,1]"}},
      {2, {"parallel.pipeline=2"}},
      {4, {"parallel.pipeline=2"}},  // two replicas
      {4, {"parallel.pipeline=2", "parallel.spatial=[2,1,1]"}}};
  for (auto [ranks, settings] : layouts) {
    settings.push_back(one_epoch);
    SCOPED_TRACE(std::to_string(ranks) + " ranks, " + ::testing::PrintToString(settings));
    EXPECT_TRUE(says(
        train("shared", ranks, skipping(settings)),
        {"1 samples of the training and 1 of the validation can't be read", "field 2 is damaged"}));
    expect_counts("shared", 1);
    expect_same_losses("shared", "whole");
  }
}

TEST_F(BadSamplesOfFields, GoOnInAnotherLayout) {
  train("whole", 1, skipping({}));
  train("parts", 2, skipping({"training.n_epochs=1", "parallel.spatial=[2,1,1]"}));
  int asked = 0;
  train("parts", 2, skipping({"parallel.pipeline=2"}), "newest", [&] { return ++asked == 1; });
  train("parts", 1, skipping({}), "newest");
  expect_counts("parts", 2);
  expect_same_losses("parts", "whole");
}

}  // namespace
}  // namespace kolo::testing
