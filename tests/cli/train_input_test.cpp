// Wrong input of kolo train: exit status 2, one clear message, nothing written.
#include <fmt/format.h>

#include "cli/program.h"
#include "kolo/base/file.h"
#include "support/idx_files.h"
#include "support/matchers.h"
#include "support/needs_mpi.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class TrainInput : public ::testing::Test {
 protected:
  TrainInput() { write_small_mnist(folder / "data", 40, 20); }

  // Writes a configuration whose run would go to folder/run.
  std::string config(const std::string& data, const std::string& model = "{name: mnist_net}",
                     const std::string& rest = "optimizer: {name: sgd}\n") {
    return folder.write("c.yaml", "output_dir: " + (folder / "run").string() + "\ndata: " + data +
                                      "\nmodel: " + model + "\n" + rest);
  }
  std::string good_config() { return config(data()); }
  [[nodiscard]] std::string data() const {
    return "{name: mnist, path: " + (folder / "data").string() + "}";
  }

  void expect_refused(std::vector<std::string> arguments, const std::vector<std::string>& words) {
    arguments.insert(arguments.begin(), "train");
    const auto before = entries();
    const auto result = run_kolo(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output << result.errors;
    for (const auto& word : words) EXPECT_TRUE(says(result.errors, {word}));
    EXPECT_EQ(result.errors.find("kolo: "), 0U) << result.errors;
    EXPECT_EQ(result.errors.find("kolo: ", 1), std::string::npos)
        << "one message only: " << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_EQ(entries(), before) << "nothing is written";
  }

  [[nodiscard]] std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
      names.push_back(entry.path());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder folder;
};

TEST_F(TrainInput, MissingAndMalformedFiles) {
  expect_refused({(folder / "none.yaml").string()},
                 {"cannot read the configuration: ", "none.yaml does not exist"});
  expect_refused({folder.write("bad.yaml", "data:\n  name: [mnist\nmodel: }\n")}, {"bad.yaml:3"});
}

TEST_F(TrainInput, FoldersThatCannotHoldTheRun) {
  const auto file = good_config();
  const std::string longest(255, 'a');
  std::filesystem::create_directory(folder / longest);
  write_file_atomically(folder / longest / "config.yaml", "");
  write_file_atomically(folder / longest / "history.json", "");
  const auto output = "output_dir=" + (folder / longest).string();
  expect_refused({file, output}, {"can't be moved aside", "too long", "--output DIR"});
  expect_refused({file, "output_dir=" + (folder / (longest + "a")).string()}, {"too long"});
  std::filesystem::create_directory(folder / "run");
  write_file_atomically(folder / "run" / "config.yaml", "");
  write_file_atomically(folder / "run" / "checkpoints", "");
  expect_refused({file, "--resume"}, {"checkpoints is not a folder"});
}

// Wherever a path is only looked at.
TEST_F(TrainInput, PathsThatTheSystemRefusesAreSaidWithWhatToDo) {
  const auto too_long = (folder / std::string(256, 'a')).string();
  const auto loop = (folder / "loop").string();
  std::filesystem::create_symlink("loop", loop);
  ASSERT_EQ(run_kolo({"train", good_config(), "training.max_steps=1"}).exit_code, 0);
  for (const auto& [path, reason] : {std::pair(too_long, "255 bytes"), std::pair(loop, "link")}) {
    expect_refused({good_config(), "model.init_from=" + path}, {path, reason});
    expect_refused({good_config(), "--resume=" + path}, {path, reason});
    for (const auto& words : std::vector<std::vector<std::string>>{
             {"eval", path}, {"timeline", path}, {"predict", path, path, "-o", path}}) {
      const auto result = run_kolo(words);
      EXPECT_EQ(result.exit_code, 2) << words[0];
      EXPECT_THAT(result.errors,
                  AllOf(HasSubstr(path), HasSubstr(reason), Not(HasSubstr("filesystem error"))))
          << words[0];
    }
  }
}

// tests/config has all that is wrong with a configuration alone.
TEST_F(TrainInput, WrongSettings) {
  const auto file = good_config();
  expect_refused({file, "training.bach_size=3"}, {"unknown key", "bach_size", "batch_size"});
  expect_refused({file, "--n_epochs", "two"}, {"--n_epochs: training.n_epochs: expected", "two"});
  expect_refused({config(data(), "{name: mnist_net, dropuot: 0}")},
                 {"c.yaml:3", "dropuot", "dropout"});
}

TEST_F(TrainInput, MissingDataSaysWhichCommandMakesOrGetsIt) {
  const auto nowhere = (folder / "nowhere").string();
  const std::string cnn = "{name: cnn}";
  expect_refused({config("{name: mnist, path: " + nowhere + "}")},
                 {"c.yaml:2: data.path: ", "nowhere", "kolo data fetch mnist",
                  "apt install dataset-fashion-mnist"});
  expect_refused({config("{name: mnist}")}, {"c.yaml:2: data.path: ", "kolo data fetch mnist"});
  expect_refused({config("{name: fashion_mnist, path: " + nowhere + "}")},
                 {"c.yaml:2: data.path: ", "fashion-mnist"});
  expect_refused({config("{name: cifar10, path: " + nowhere + "}", cnn)},
                 {"c.yaml:2: data.path: ", "kolo data fetch cifar10", "kolo data cifar10 --from"});
  expect_refused({config("{name: imagenet, train_dir: " + nowhere + ", valid_dir: x}", cnn)},
                 {"c.yaml:2: data.train_dir: ", "kolo data images --from"});
  expect_refused({config("{name: imagenet}", cnn)}, {"data.train_dir", "kolo data images --from"});
  expect_refused(
      {config("{name: nbody, n_train: 1, n_valid: 1, train_path: " + nowhere + ", valid_path: x}",
              "{name: unet3d}")},
      {"c.yaml:2: data.train_path: ", "kolo data nbody --size 64 -o"});
}

TEST_F(TrainInput, WhatIsKnownOnlyOfDataAndModelNamesItsLine) {
  expect_refused({config(data(), "{name: mnist_nett}")}, {"c.yaml:3: model.name: "});
  expect_refused({good_config(), "model.name=mnist_nett"}, {"command line: model.name: "});
  expect_refused({config(data(), "{name: mnist_net, n_classes: 3}")},
                 {"c.yaml:3: model.n_classes: 3, but", "10 classes"});
  expect_refused({good_config(), "data.n_train=41"}, {"command line: data.n_train: 41 samples"});
  expect_refused({good_config(), "training.loss=l1"}, {"command line: training.loss: l1"});
}

TEST_F(TrainInput, MoreRanksThanSamplesOrThanTheMachineAllows) {
  expect_refused({good_config(), "-n", "41", "--oversubscribe"},
                 {"40 training samples", "41 ranks"});
  expect_refused({good_config(), "-n", "39000"}, {"39000", "--oversubscribe"});
}

TEST_F(TrainInput, OutputFolderThatCannotBe) {
  folder.write("file", "");
  expect_refused({good_config(), "--output", (folder / "file" / "run").string()},
                 {"file is not a folder", "--output"});
  expect_refused({good_config(), "--output", "/proc/kolo-run"}, {"/proc"});
}

TEST_F(TrainInput, NothingToResume) {
  expect_refused({good_config(), "--resume"}, {"no checkpoint", "without --resume"});
}

TEST_F(TrainInput, ResumeWithAnotherModel) {
  const auto file = good_config();
  ASSERT_EQ(run_kolo({"train", file}).exit_code, 0);
  expect_refused({file, "--resume", "model.name=mnist_cnn"},
                 {"another model", "conv1.weight", "[10, 1, 5, 5]", "[32, 1, 3, 3]"});
  expect_refused({file, "--resume", "optimizer.name=adam"}, {"the checkpoint's optimizer is sgd"});
  expect_refused({file, "--resume", "-n", "2", "model.name=mnist_cnn"}, {"another model"});
}

TEST_F(TrainInput, ShapesThatDoNotFit) {
  expect_refused({config(data(), "{name: mnist_net, input_shape: [3, 28, 28]}")},
                 {"[3, 28, 28]", "[1, 28, 28]"});
  expect_refused({config("{name: dummy, n_train: 10, input_shape: [1, 9, 9]}")}, {"16"});
}

TEST_F(TrainInput, ValidationSamplesOfAnotherShapeThanTraining) {
  write_small_mnist(folder / "small", 40, 20, 20);
  for (const char* const kind : {"images", "labels"}) {
    const auto file = fmt::format("t10k-{}-idx{}-ubyte", kind, kind[0] == 'i' ? 3 : 1);
    std::filesystem::copy_file(folder / "small" / file, folder / "data" / file,
                               std::filesystem::copy_options::overwrite_existing);
  }
  expect_refused({good_config()}, {"c.yaml:2: data.path: ", "validation samples is [1, 20, 20]",
                                   "[1, 28, 28] in training"});
}

TEST_F(TrainInput, BatchesThatNoMemoryHolds) {
  const auto file =
      config("{name: dummy, input_shape: [1, 28, 28], n_train: 4000000000, n_valid: 4000000000}");
  expect_refused(
      {file, "training.batch_size=1000000000"},
      {"command line: training.batch_size: a batch of 1 000 000 000 samples takes", "TiB"});
  expect_refused({file, "training.batch_size=1", "training.validation_batch_size=1000000000"},
                 {"command line: training.validation_batch_size: a batch of 1 000 000 000"});
  // One that is larger than the data takes no more memory than that.
  EXPECT_TRUE(succeeds(run_kolo({"train", good_config(), "training.batch_size=1000000000"})));
}

TEST_F(TrainInput, UnderAForeignLauncherTheMessageComesOnce) {
  KOLO_NEEDS_MPI();
  const auto result =
      run_job({MPIRUN_SCRIPT, "2", KOLO_PROGRAM, "train", (folder / "none.yaml").string()},
              {.deadline = std::chrono::seconds(60)});
  EXPECT_EQ(result.exit_code, 2);
  const auto first = result.errors.find("none.yaml");
  ASSERT_NE(first, std::string::npos) << result.errors;
  EXPECT_EQ(result.errors.find("kolo: ", first), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace kolo::testing
