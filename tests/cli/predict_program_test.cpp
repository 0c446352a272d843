// kolo predict, end to end through the binary.
#include <cmath>
#include <memory>

#include "cli/background.h"
#include "kolo/base/file.h"
#include "run/random_box.h"
#include "support/idx_files.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

// A very small U-Net, trained on random boxes, with a rate that makes its outputs large.
class PredictProgram : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    trained_ = std::make_unique<TemporaryFolder>();
    const auto config = trained_->write(
        "fields.yaml",
        "data: {name: nbody, mode: synthetic, box_size: 16, crop: 16, n_train: 12, n_valid: 2}\n"
        "model: {name: unet3d, levels: 2, channels: 4}\n"
        "optimizer: {name: adam, lr: 0.05}\n"
        "training: {loss: l1, batch_size: 2, n_epochs: 1}\n"
        "device: {intra_threads: 1}\n");
    ASSERT_TRUE(succeeds(run_kolo({"train", config, "--output", run()})));
  }
  static void TearDownTestSuite() { trained_.reset(); }

  PredictProgram() {
    write_dark(40, "box");
    fs::create_directory(folder_ / "made");
  }

  // Dark matter alone, box_data.npy.
  void write_dark(std::int64_t size, const std::string& prefix) const {
    write_box_npy(random_box(size, 3), folder_ / prefix);
    fs::remove(npy_label_file(folder_ / prefix));
  }

  [[nodiscard]] static std::string run() { return *trained_ / "run"; }
  [[nodiscard]] std::string made(const std::string& name) const { return folder_ / "made" / name; }
  [[nodiscard]] std::vector<std::string> arguments(const std::string& output,
                                                   const std::vector<std::string>& more) const {
    return joined({"predict", run(), folder_ / "box_data.npy", "-o", made(output)}, more);
  }
  [[nodiscard]] ProcessResult predict(const std::string& output,
                                      const std::vector<std::string>& more = {}) const {
    return run_kolo(arguments(output, more));
  }
  [[nodiscard]] std::vector<float> gas_in(const std::string& output) const {
    const BoxFile box(made(output), BoxFields::any);
    const auto edge = box.size();
    std::vector<float> values(static_cast<std::size_t>(5 * edge * edge * edge));
    box.read_planes(BoxField::hydro, 0, edge, values);
    return values;
  }
  [[nodiscard]] std::vector<std::string> names_made() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "made"))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  [[nodiscard]] ProcessResult kill_while_it_writes(const std::vector<std::string>& more,
                                                   const std::function<void(pid_t)>& kill) const {
    write_dark(96, "large");
    auto words = joined(arguments("gas.h5", {"--tile", "4"}), more);
    words[2] = folder_ / "large_data.npy";
    return run_kolo_and(words, [&](pid_t process) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (names_made().empty() && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      kill(process);
    });
  }
  void expect_nothing_in_the_way() const {
    ASSERT_EQ(predict("gas.h5").exit_code, 0);
    EXPECT_THAT(names_made(), ElementsAre("gas.h5"));
  }

  static inline std::unique_ptr<TemporaryFolder> trained_;
  TemporaryFolder folder_;
};

TEST_F(PredictProgram, MakesTheSameOnAnyNumberOfRanksAndInAnyTiles) {
  ASSERT_TRUE(
      succeeds(predict("whole.h5"),
               {"unet3d, ", "step-00000006 (epoch 1", "whole.h5: gas of 40^3 cells, 1.22 MiB",
                "1 of 40 x 40 x 40 cells at most\n", "cells/s, 1 rank\n", "peak memory"}));
  const auto expected = gas_in("whole.h5");
  const auto largest =
      std::abs(*std::ranges::max_element(expected, {}, [](float v) { return std::abs(v); }));
  EXPECT_GT(largest, .01F) << "there is something to compare";
  const auto expect_same = [&](const std::string& name) {
    const auto gas = gas_in(name);
    ASSERT_EQ(gas.size(), expected.size());
    float difference = 0;
    for (std::size_t i = 0; i < gas.size(); ++i)
      difference = std::max(difference, std::abs(gas[i] - expected[i]));
    EXPECT_LT(difference, 1e-5F) << name;
  };
  ASSERT_TRUE(succeeds(
      predict("three.h5", {"-n", "3", "--oversubscribe", "--tile", "12", "--checkpoint", "6"}),
      {"64 of 28 x 28 x 28 cells at most", "3 ranks"}));
  expect_same("three.h5");
  EXPECT_THAT(names_made(), ElementsAre("three.h5", "whole.h5"));

  const auto arrays = json_of({"data", "inspect", made("three.h5")})["arrays"];
  ASSERT_EQ(arrays.size(), 1U);
  EXPECT_EQ(arrays[0]["name"], "Hydro");
  EXPECT_EQ(arrays[0]["shape"], nlohmann::json({5, 40, 40, 40}));
}

TEST_F(PredictProgram, ReplacesAFileOnlyWhenItIsAskedTo) {
  ASSERT_EQ(predict("gas.npy").exit_code, 0);
  const auto before = read_text_file(made("gas.npy"));
  EXPECT_TRUE(
      is_refused(predict("gas.npy", {"-n", "2"}), {"it is there already; --force replaces it"}));
  EXPECT_EQ(read_text_file(made("gas.npy")), before);
  EXPECT_EQ(predict("gas.npy", {"--force"}).exit_code, 0);
}

// tests/run has all that can be wrong.
TEST_F(PredictProgram, RefusesWrongInputBeforeAnythingIsWritten) {
  EXPECT_TRUE(is_refused(predict("gas.h5", {"-n", "2", "model.levels=4"}),
                         {"40^3 cells, but unet3d works on multiples of 16"}));
  EXPECT_TRUE(says(predict("gas.h5", {"model.channels=5"}).errors, {"another model"}));
  EXPECT_THAT(names_made(), IsEmpty());
}

// A program, or one of its ranks, that is killed while it writes leaves no file of that name.
TEST_F(PredictProgram, AKilledOneLeavesAPartThatTheNextOneClearsAway) {
  const auto killed = kill_while_it_writes({}, [](pid_t process) { ::kill(process, SIGKILL); });
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << killed.output;
  ASSERT_EQ(names_made().size(), 1U);
  EXPECT_TRUE(says(names_made().front(), {"gas.h5.", ".part"}));
  expect_nothing_in_the_way();
}

TEST_F(PredictProgram, AKilledRankEndsAll) {
  bool is_killed = false;
  const auto result = kill_while_it_writes({"-n", "2", "--oversubscribe"}, [&](pid_t) {
    is_killed = signal_rank(1, made("gas.h5"), SIGKILL);
  });
  EXPECT_TRUE(is_killed);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_FALSE(result.timed_out);
  EXPECT_FALSE(fs::exists(made("gas.h5")));
  expect_nothing_in_the_way();
}

// tests/run has the numbers.
TEST(PredictSamplesProgram, ShowsTheMostProbableClassesOrWritesAll) {
  const TemporaryFolder folder;
  write_small_mnist(folder / "digits", 40, 44);
  const auto config =
      folder.write("digits.yaml", "data: {name: mnist, path: " + (folder / "digits").string() +
                                      "}\n"
                                      "model: {name: mlp, hidden: [8]}\n"
                                      "optimizer: {name: adam}\n"
                                      "training: {batch_size: 8, n_epochs: 1}\n"
                                      "device: {intra_threads: 1}\n");
  const std::string run = folder / "run";
  ASSERT_EQ(run_kolo({"train", config, "--output", run}).exit_code, 0);
  const std::string images = folder / "digits" / "t10k-images-idx3-ubyte";
  EXPECT_TRUE(succeeds(run_kolo({"predict", run, images}),
                       {"mlp, ", "sample  class  probability  next\n0       ",
                        "\n\n... 4 more; -o FILE.csv writes all\n"}));
  const std::string table = folder / "classes.csv";
  EXPECT_TRUE(succeeds(run_kolo({"predict", run, images, "-o", table, "-n", "2"}),
                       {"classes.csv: classes of 44 samples\n\ntime ", "samples/s, 2 ranks"}));
  EXPECT_EQ(std::ranges::count(read_text_file(table), '\n'), 45);
}

}  // namespace
}  // namespace kolo::testing
