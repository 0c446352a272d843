// data.name: arrays, through the program: a network learns samples that are files of .npy.
#include <cmath>

#include <gmock/gmock.h>

#include "cli/background.h"
#include "cli/program.h"
#include "kolo/data/npy.h"
#include "kolo/observe/history.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ArraysProgram : public ::testing::Test {
 protected:
  ArraysProgram() {
    write("train", 256);
    write("valid", 64);
  }
  // targets: the sum and the difference of two inputs.
  void write(const std::string& split, std::int64_t samples) const {
    std::vector<float> inputs, targets;
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto a = static_cast<float>(std::sin(static_cast<double>(i)));
      const auto b = static_cast<float>(std::cos(3 * static_cast<double>(i)));
      inputs.insert(inputs.end(), {a, b});
      targets.insert(targets.end(), {a + b, a - b});
    }
    for (const auto& [name, numbers] :
         {std::pair("inputs", inputs), std::pair("targets", targets)}) {
      auto bytes = npy_header_bytes(std::vector<std::int64_t>{samples, 2});
      bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
      folder_.write(split + "/" + name + ".npy", bytes);
    }
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  TemporaryFolder folder_;
  std::string config_ =
      folder_.write("own.yaml", "data: {name: arrays, train_path: " + path("train") +
                                    ", valid_path: " + path("valid") +
                                    "}\n"
                                    "model: {name: mlp, hidden: []}\n"
                                    "optimizer: {name: adam, lr: 0.02, lr_scaling: none}\n"
                                    "training: {batch_size: 16, n_epochs: 20, loss: mse}\n");
};

TEST_F(ArraysProgram, ANetworkLearnsNumbersOfOnesOwn) {
  const auto run = run_kolo({"train", config_, "--output", path("run"), "-n", "2"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("data arrays: 256 training and 64 validation samples"));
  EXPECT_LT(History::read(folder_ / "run" / "history.json").epochs().back().val_loss, 1e-2);
}

TEST_F(ArraysProgram, SamplesAreInspected) {
  const auto run = run_kolo({"data", "inspect", path("train")});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, AllOf(HasSubstr("samples of arrays"), HasSubstr("inputs"),
                                HasSubstr("targets"), HasSubstr("256")));
}

TEST_F(ArraysProgram, OneArrayOfAnyNumbersIsInspected) {
  auto bytes = npy_header_bytes(std::vector<std::int64_t>{3});
  bytes.replace(bytes.find("<f4"), 3, "|u1");
  const auto file = folder_.write("labels.npy", bytes + "\x01\x07\x02");
  const auto run = run_kolo({"data", "inspect", file});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, AllOf(HasSubstr("|u1"), HasSubstr("7")));
}

TEST_F(ArraysProgram, SplitsThatDifferAreRefused) {
  const auto shapes =
      run_kolo({"train", config_, "--output", path("run"), "data.valid_path=" + path("nowhere")});
  EXPECT_EQ(shapes.exit_code, 2);
  EXPECT_THAT(shapes.errors, AllOf(HasSubstr("data.valid_path: "), HasSubstr("does not exist")));
}

}  // namespace
}  // namespace kolo::testing
