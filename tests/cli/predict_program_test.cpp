// kolo predict, end to end through the binary.
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/background.h"
#include "kolo/base/file.h"
#include "kolo/data/box_files.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A very small U-Net, trained on random boxes, with a rate that makes its outputs large.
class PredictProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto config = folder_.write(
        "fields.yaml",
        "data: {name: nbody, mode: synthetic, box_size: 16, crop: 16, n_train: 12, n_valid: 2}\n"
        "model: {name: unet3d, levels: 2, channels: 4}\n"
        "optimizer: {name: adam, lr: 0.05}\n"
        "training: {loss: l1, batch_size: 2, n_epochs: 1}\n"
        "device: {intra_threads: 1}\n");
    const auto trained = run_kolo({"train", config, "--output", run()});
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
    write_dark(40, "box");
    fs::create_directory(folder_ / "made");
  }

  // Dark matter alone, box_data.npy.
  void write_dark(std::int64_t size, const std::string& prefix) const {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    SimulationBox box{.size = size};
    const auto cells = static_cast<std::size_t>(size * size * size);
    box.nbody.resize(4 * cells);
    box.hydro.resize(5 * cells);
    for (auto& value : box.nbody) value = normal(random);
    write_box_npy(box, folder_ / prefix);
    fs::remove(npy_label_file(folder_ / prefix));
  }

  [[nodiscard]] std::string run() const { return folder_ / "run"; }
  [[nodiscard]] std::string made(const std::string& name) const { return folder_ / "made" / name; }
  [[nodiscard]] std::vector<std::string> arguments(const std::string& output,
                                                   const std::vector<std::string>& more) const {
    std::vector<std::string> all{"predict", run(), folder_ / "box_data.npy", "-o", made(output)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
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

  TemporaryFolder folder_;
};

TEST_F(PredictProgram, MakesTheSameOnAnyNumberOfRanksAndInAnyTiles) {
  const auto whole = predict("whole.h5");
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  EXPECT_TRUE(says(whole.output,
                   {"unet3d, ", "step-00000006 (epoch 1", "whole.h5: gas of 40^3 cells, 1.22 MiB",
                    "1 of 40 x 40 x 40 cells at most, 1 rank\n", "cells/s", "peak memory"}));
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
  const auto two = predict("two_label.npy", {"-n", "2", "--oversubscribe", "--json"});
  ASSERT_EQ(two.exit_code, 0) << two.errors;
  const auto json = nlohmann::json::parse(two.output);
  EXPECT_EQ(json["n_ranks"], 2);
  EXPECT_EQ(json["size"], 40);
  EXPECT_GE(json["tiles"], 2);
  EXPECT_EQ(json["bytes"], 5 * 40 * 40 * 40 * 4);
  EXPECT_EQ(json["output"], made("two_label.npy"));
  EXPECT_GT(json["cells_per_second"].get<double>(), 0);
  expect_same("two_label.npy");
  const auto three =
      predict("three.h5", {"-n", "3", "--oversubscribe", "--tile", "12", "--checkpoint", "6"});
  ASSERT_EQ(three.exit_code, 0) << three.errors;
  EXPECT_TRUE(says(three.output, {"64 of 28 x 28 x 28 cells at most, 3 ranks"}));
  expect_same("three.h5");
  EXPECT_THAT(names_made(), ElementsAre("three.h5", "two_label.npy", "whole.h5"));

  const auto inspected = run_kolo({"data", "inspect", made("three.h5"), "--json"});
  ASSERT_EQ(inspected.exit_code, 0) << inspected.errors;
  const auto arrays = nlohmann::json::parse(inspected.output)["arrays"];
  ASSERT_EQ(arrays.size(), 1U);
  EXPECT_EQ(arrays[0]["name"], "Hydro");
  EXPECT_EQ(arrays[0]["shape"], nlohmann::json({5, 40, 40, 40}));
}

TEST_F(PredictProgram, ReplacesAFileOnlyWhenItIsAskedTo) {
  ASSERT_EQ(predict("gas.npy").exit_code, 0);
  const auto before = read_text_file(made("gas.npy"));
  const auto again = predict("gas.npy", {"-n", "2"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(says(again.errors, {"it is there already; --force replaces it"}));
  EXPECT_EQ(read_text_file(made("gas.npy")), before);
  EXPECT_EQ(predict("gas.npy", {"--force"}).exit_code, 0);
}

TEST_F(PredictProgram, RefusesWrongInputBeforeAnythingIsWritten) {
  const auto expect_refused = [&](const std::vector<std::string>& more,
                                  const std::string& message) {
    const auto result = predict("gas.h5", more);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_TRUE(says(result.errors, {message}));
  };
  expect_refused({"--tile", "10"}, "--tile 10, but unet3d works on multiples of 4");
  expect_refused({"--tile", "0"}, "--tile: expected a whole number from 1");
  expect_refused({"--checkpoint", "5"}, "no checkpoint of step 5");
  expect_refused({"-n", "2", "model.levels=4"}, "40^3 cells, but unet3d works on multiples of 16");
  expect_refused({"model.channels=5"}, "another model");
  EXPECT_EQ(run_kolo({"predict", run(), folder_ / "none.h5", "-o", made("gas.h5")}).exit_code, 2);
  EXPECT_EQ(run_kolo({"predict", run(), folder_ / "box"}).exit_code, 2);
  EXPECT_THAT(names_made(), IsEmpty());
}

// Killed while it writes, it leaves no file of that name, and what it leaves aside the next one
// clears away.
TEST_F(PredictProgram, LeavesNoFileWhenItIsKilled) {
  write_dark(96, "large");
  std::vector<std::string> many = arguments("gas.h5", {"--tile", "4"});
  many[2] = folder_ / "large_data.npy";
  const auto killed = run_kolo_and(many, [&](pid_t process) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (names_made().empty() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::kill(process, SIGKILL);
  });
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << killed.output;
  ASSERT_EQ(names_made().size(), 1U);
  EXPECT_TRUE(says(names_made().front(), {"gas.h5.", ".part"}));
  ASSERT_EQ(predict("gas.h5").exit_code, 0);
  EXPECT_THAT(names_made(), ElementsAre("gas.h5"));
}

TEST_F(PredictProgram, LeavesNoFileWhenOneOfItsRanksIsKilled) {
  write_dark(96, "large");
  std::vector<std::string> many =
      arguments("gas.h5", {"--tile", "4", "-n", "2", "--oversubscribe"});
  many[2] = folder_ / "large_data.npy";
  bool is_killed = false;
  const auto result = run_kolo_and(many, [&](pid_t) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (names_made().empty() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    is_killed = signal_rank(1, made("gas.h5"), SIGKILL);
  });
  EXPECT_TRUE(is_killed);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_FALSE(result.timed_out);
  EXPECT_FALSE(fs::exists(made("gas.h5")));
  ASSERT_EQ(predict("gas.h5").exit_code, 0);
  EXPECT_THAT(names_made(), ElementsAre("gas.h5"));
}

}  // namespace
}  // namespace kolo::testing
