// Samples of one's own in folders of .npy files: what HDF5 has not.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "data/array_files.h"
#include "data/read_sample.h"
#include "kolo/base/error.h"
#include "kolo/data/array_samples.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::npy_array;
using testing::read_sample;

class ArraySamplesTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    folder_.write(name, content);
  }
  [[nodiscard]] std::string error(const ArraySamplesOptions& options = {},
                                  const std::string& name = "") const {
    return message_of<InputError>([&] { (void)ArraySamples(folder_ / name, options); });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ArraySamplesTest, FortranOrderIsRead) {
  // In memory as it lies in the file: element (i, j, k) is 100 i + 10 j + k.
  std::vector<double> numbers;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) numbers.push_back(100 * i + 10 * j + k);
  write("inputs.npy", npy_array<double>("<f8", {2, 3, 4}, numbers, true));
  write("targets.npy", npy_array<float>("<f4", {2}, {1, 2}, true));
  const ArraySamples samples(folder_.path());
  EXPECT_THAT(samples.layout().input_shape, ElementsAre(1, 3, 4));
  EXPECT_THAT(read_sample(samples, 1).input,
              ElementsAre(100, 101, 102, 103, 110, 111, 112, 113, 120, 121, 122, 123));
  EXPECT_THAT(read_sample(samples, 1).target, ElementsAre(2));
  EXPECT_THAT(samples.warnings(),
              ElementsAre(AllOf(HasSubstr("inputs.npy"), HasSubstr("numpy.ascontiguousarray"))));

  // Files with a sample each may lie in different orders.
  std::filesystem::remove(folder_ / "inputs.npy");
  write("inputs/s0.npy", npy_array<float>("<f4", {2, 3}, {0, 1, 2, 10, 11, 12}));
  write("inputs/s1.npy", npy_array<float>("<f4", {2, 3}, {0, 10, 1, 11, 2, 12}, true));
  const ArraySamples files(folder_.path());
  EXPECT_THAT(read_sample(files, 0).input, ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_THAT(read_sample(files, 1).input, ElementsAre(0, 1, 2, 10, 11, 12));
}

TEST_F(ArraySamplesTest, FilesBesideAnArrayAreInNaturalOrder) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 12; ++i) {
    write(fmt::format("inputs/{}.npy", i), npy_array<float>("<f4", {1}, {static_cast<float>(i)}));
    labels.push_back(i);
  }
  write("labels.npy", npy_array<std::int64_t>("<i8", {12}, labels));
  const ArraySamples samples(folder_.path());
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_THAT(read_sample(samples, i).input, ElementsAre(static_cast<float>(i)));
    EXPECT_EQ(read_sample(samples, i).label, i);
  }
  EXPECT_THAT(samples.warnings(),
              ElementsAre(AllOf(HasSubstr("natural order (0.npy, 1.npy, 2.npy and 9 more)"),
                                HasSubstr("9.npy comes before 10.npy"), HasSubstr("sorted()"))));
  write("inputs/10.NPY", "");
  EXPECT_TRUE(says(ArraySamples(folder_.path()).warnings().front(),
                   {"is no .npy file and left out: 10.NPY"}));
}

TEST_F(ArraySamplesTest, NamesThatLeaveTheirOrderOpenAreRefused) {
  for (const auto* name : {"0.25", "0.5", "0.75"})
    write(fmt::format("inputs/{}.npy", name), npy_array<float>("<f4", {1}, {1}));
  write("labels.npy", npy_array<std::int64_t>("<i8", {3}, {0, 1, 2}));
  EXPECT_TRUE(says(error(), {"labels.npy", "0.5.npy or 0.25.npy"}));
  // Files that are matched by name have no order to be doubted.
  std::filesystem::remove(folder_ / "labels.npy");
  for (const auto* name : {"0.25", "0.5", "0.75"})
    write(fmt::format("labels/{}.npy", name), npy_array<std::int64_t>("<i8", {}, {1}));
  EXPECT_EQ(ArraySamples(folder_.path()).size(), 3);
  std::filesystem::rename(folder_ / "labels" / "0.75.npy", folder_ / "labels" / "0.8.npy");
  EXPECT_TRUE(says(error(), {"must have the same names", "0.8.npy"}));
  write("inputs.npy", npy_array<float>("<f4", {3}, {1, 2, 3}));
  EXPECT_TRUE(says(error(), {"there are both"}));
}

TEST_F(ArraySamplesTest, AFolderHasAFileForEachSample) {
  for (const int i : {2, 0, 1}) {
    const auto value = static_cast<float>(i);
    write(fmt::format("inputs/s{}.npy", i),
          npy_array<float>("<f4", {1, 1, 2}, {value, 10 * value}));
    write(fmt::format("targets/s{}.npy", i), npy_array<float>("<f4", {2, 1}, {-value, value}));
  }
  write("inputs/notes.txt", "");
  const ArraySamples samples(folder_.path());
  EXPECT_EQ(samples.size(), 3);
  EXPECT_THAT(samples.layout().target_shape, ElementsAre(2, 1));
  EXPECT_THAT(read_sample(samples, 1).input, ElementsAre(1, 10));
  EXPECT_THAT(read_sample(samples, 2).target, ElementsAre(-2, 2));

  write("inputs/s3.npy", npy_array<float>("<f4", {1, 1, 3}, {1, 2, 3}));
  EXPECT_TRUE(says(error(), {"s3.npy", "all samples must be alike"}));
  write("inputs/s3.npy", npy_array<float>("<f4", {1, 1, 2}, {1, 2}));
  EXPECT_TRUE(says(error(), {"has 4 samples, but "}));
  write("targets/other.npy", npy_array<float>("<f4", {2, 1}, {1, 2}));
  EXPECT_TRUE(says(error(), {"must have the same names", "other.npy"}));
}

TEST_F(ArraySamplesTest, HalvesAreRead) {
  write("inputs.npy", npy_array<std::uint16_t>("<f2", {2, 2}, {0x3c00, 0xc000, 0x3555, 0x7bff}));
  write("targets.npy", npy_array<double>({2}, {.5, -2}));
  EXPECT_THAT(read_sample(ArraySamples(folder_.path()), 1).input,
              ElementsAre(0.333251953125F, 65504));
}

TEST_F(ArraySamplesTest, FilesOfSeveralInputsHaveTheSameNames) {
  write("labels.npy", npy_array<std::int64_t>({2}, {0, 1}));
  for (const auto* name : {"left/s0", "left/s1", "right/s0", "right/s2"})
    write(std::string(name) + ".npy", npy_array<float>({1}, {1}));
  EXPECT_TRUE(says(error({.inputs = {"left", "right"}}),
                   {"must have the same names", "s1.npy and s2.npy"}));
}

TEST_F(ArraySamplesTest, OtherFilesAreRefusedByName) {
  write("inputs.npy", npy_array<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  write("labels.npy", npy_array<std::int64_t>("|O", {2}, {0, 3}));
  EXPECT_TRUE(says(error(), {"Python objects"}));
  write("labels.npy", npy_array<std::int64_t>({2}, {0}));
  EXPECT_TRUE(says(error(), {"truncated"}));
  EXPECT_TRUE(says(error({}, "labels.npy"), {"it is one .npy array"}));
  write("all.npz", "PK\x03\x04");
  EXPECT_TRUE(says(error({}, "all.npz"), {"unzip"}));
}

}  // namespace
}  // namespace kolo
