// Kernels by measurement, as the program keeps, shows and takes them.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "kolo/base/file.h"
#include "kolo/nn/convolution.h"
#include "kolo/nn/kernel_choices.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class KernelsProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (convolution_implementation(2).empty())
      GTEST_SKIP()
          << "kolo was built without oneDNN (libdnnl-dev), so there are no kernels to choose";
    write_file_atomically(
        folder_ / "c.yaml",
        "model: {name: cnn}\n"
        "data: {name: dummy, input_shape: [3, 16, 16], n_classes: 4, n_train: 64, "
        "n_valid: 16}\n"
        "training: {batch_size: 16, n_epochs: 2}\n"
        "optimizer: {name: sgd, lr: 0.01}\n"
        "device: {intra_threads: 1}\n");
  }
  [[nodiscard]] ProcessResult kolo(std::vector<std::string> words) const {
    return run_kolo(words, {{"XDG_CACHE_HOME", folder_ / "cache"}});
  }
  [[nodiscard]] ProcessResult train(std::vector<std::string> more,
                                    const std::string& output = "run") const {
    more.insert(more.begin(), {"train", folder_ / "c.yaml", "--output", folder_ / output});
    return kolo(more);
  }
  [[nodiscard]] KernelChoices of_run(const std::string& output = "run") const {
    return kernel_choices_from_json(read_text_file(folder_ / output / "kernels.json"));
  }
  [[nodiscard]] std::filesystem::path cache() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache" / "kolo"))
      if (entry.path().extension() == ".json") return entry.path();
    return {};
  }

  TemporaryFolder folder_;
};

TEST_F(KernelsProgram, AreTriedOnceAndKept) {
  const auto first = train({"-n", "2"}), second = train({"-n", "2"}, "again");
  ASSERT_EQ(first.exit_code, 0) << first.output << first.errors;
  EXPECT_THAT(first.output, HasSubstr("trying the kernels of"));
  EXPECT_THAT(second.output, Not(HasSubstr("trying the kernels of")));
  EXPECT_FALSE(of_run().empty());
  EXPECT_EQ(of_run("again"), of_run());
}

// Also where the cache has changed its mind.
TEST_F(KernelsProgram, ARunGoesOnWithItsOwn) {
  ASSERT_EQ(train({"training.max_steps=3"}).exit_code, 0);
  const auto own = of_run();
  auto kept = nlohmann::json::parse(read_text_file(cache()));
  for (auto& [convolution, choice] : kept["kernels"].items())
    choice = {{"kernel", "taps"}, {"milliseconds", {{"taps", 7}}}};
  write_file_atomically(cache(), kept.dump());
  const auto resumed = train({"--resume", "training.max_steps=5"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output << resumed.errors;
  EXPECT_EQ(of_run(), own);
  ASSERT_EQ(train({}, "other").exit_code, 0);
  for (const auto& [convolution, choice] : of_run("other")) EXPECT_EQ(choice.kernel, "taps");
}

TEST_F(KernelsProgram, TheUsualOnesNeedNoFile) {
  ASSERT_EQ(train({"training.kernels=usual"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "kernels.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
}

TEST_F(KernelsProgram, AreTheUsualOnesWhereNothingCanBeKept) {
  write_file_atomically(folder_ / "cache", "in the way");
  const auto result = train({});
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output + result.errors, HasSubstr("the usual ones are taken"));
}

TEST_F(KernelsProgram, DoctorShowsAndRenewsThem) {
  const auto shown = kolo({"doctor", "--tune", folder_ / "c.yaml", "training.batch_size=8"});
  ASSERT_EQ(shown.exit_code, 0) << shown.errors;
  EXPECT_THAT(shown.output, AllOf(HasSubstr("8 x 3x16x16 to 16, 3x3, stride 1x1, padding 1x1"),
                                  HasSubstr("others, ms"), HasSubstr(cache().string())));
  const auto before = read_text_file(cache());
  ASSERT_EQ(kolo({"doctor", "--tune", folder_ / "c.yaml", "training.batch_size=8"}).exit_code, 0);
  EXPECT_NE(read_text_file(cache()), before) << "no two measurements have the same digits";
}

TEST_F(KernelsProgram, SaysWhatIsWrong) {
  const auto settings = kolo({"doctor", "training.batch_size=8"});
  EXPECT_EQ(settings.exit_code, 2);
  EXPECT_THAT(settings.errors, HasSubstr("settings are for --tune FILE"));
  EXPECT_EQ(kolo({"doctor", "--tune", folder_ / "missing.yaml"}).exit_code, 2);
  EXPECT_EQ(train({"training.kernels=fastest"}).exit_code, 2);
}

}  // namespace
}  // namespace kolo::testing
