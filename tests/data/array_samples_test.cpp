#include "kolo/data/array_samples.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

// An array as NumPy writes it.
template <typename T>
std::string npy(const std::string& type, const std::vector<std::int64_t>& shape,
                const std::vector<T>& numbers, bool is_fortran = false) {
  auto text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}{}), }}", type,
                          is_fortran ? "True" : "False", fmt::join(shape, ", "),
                          shape.size() == 1 ? "," : "");
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += {static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  bytes += text;
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
  return bytes;
}

class ArraySamplesTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    folder_.write(name, content);
  }
  [[nodiscard]] std::string error(const ArraySamplesOptions& options = {},
                                  const std::string& name = "") const {
    return message_of<InputError>([&] { (void)ArraySamples(folder_ / name, options); });
  }

  struct Sample {
    std::vector<float> input, target;
    std::vector<std::int64_t> label;
  };
  static Sample read(const ArraySamples& samples, std::int64_t index) {
    Sample sample;
    const auto& layout = samples.layout();
    sample.input.resize(static_cast<std::size_t>(layout.input_size()));
    if (layout.classes > 0)
      sample.label.resize(1);
    else
      sample.target.resize(static_cast<std::size_t>(layout.target_size()));
    samples.read(index, 0, {sample.input, sample.label, sample.target});
    return sample;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ArraySamplesTest, OneArrayHasTheSamplesInFront) {
  write("inputs.npy", npy<std::uint8_t>("|u1", {3, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255}));
  write("labels.npy", npy<std::int64_t>("<i8", {3}, {2, 0, 4}));
  const ArraySamples samples(folder_.path(), {.divisor = 255});
  EXPECT_EQ(samples.size(), 3);
  EXPECT_THAT(samples.layout().input_shape, ElementsAre(1, 2, 2));
  EXPECT_EQ(samples.layout().classes, 5);
  const auto last = read(samples, 2);
  EXPECT_THAT(last.input, ElementsAre(8 / 255.F, 9 / 255.F, 10 / 255.F, 1));
  EXPECT_THAT(last.label, ElementsAre(4));
  EXPECT_EQ(ArraySamples(folder_.path(), {.classes = 7}).layout().classes, 7);
}

TEST_F(ArraySamplesTest, AllTypesOfNumbersAreRead) {
  write("targets.npy", npy<double>("<f8", {2}, {.5, -2}));
  const auto expect_read = [&]<typename T>(const std::string& type, T) {
    write("inputs.npy", npy<T>(type, {2, 3}, {T(1), T(2), T(3), T(4), T(5), T(100)}));
    const ArraySamples samples(folder_.path());
    EXPECT_THAT(samples.layout().input_shape, ElementsAre(3)) << type;
    EXPECT_THAT(samples.layout().target_shape, ElementsAre(1));
    EXPECT_THAT(read(samples, 1).input, ElementsAre(4, 5, 100)) << type;
    EXPECT_THAT(read(samples, 1).target, ElementsAre(-2));
  };
  expect_read("<f4", float());
  expect_read("<f8", double());
  expect_read("<i8", std::int64_t());
  expect_read("<i4", std::int32_t());
  expect_read("<i2", std::int16_t());
  expect_read("|i1", std::int8_t());
  expect_read("<u4", std::uint32_t());
  expect_read("<u2", std::uint16_t());
  expect_read("|u1", std::uint8_t());
  expect_read("<u8", std::uint64_t());
  write("inputs.npy", npy<std::uint16_t>("<f2", {2, 2}, {0x3c00, 0xc000, 0x3555, 0x7bff}));
  EXPECT_THAT(read(ArraySamples(folder_.path()), 1).input, ElementsAre(0.333251953125F, 65504));
}

template <typename T>
std::vector<T> swapped(std::vector<T> numbers) {
  for (auto& number : numbers) {
    auto* const bytes = reinterpret_cast<char*>(&number);
    std::reverse(bytes, bytes + sizeof(T));
  }
  return numbers;
}

TEST_F(ArraySamplesTest, BigEndianNumbersAreRead) {
  write("inputs.npy", npy<float>(">f4", {2, 2}, swapped<float>({1.5F, -2, 1e-3F, 7})));
  write("labels.npy", npy<std::int64_t>(">i8", {2}, swapped<std::int64_t>({2, 1})));
  const ArraySamples samples(folder_.path());
  EXPECT_THAT(read(samples, 1).input, ElementsAre(1e-3F, 7));
  EXPECT_THAT(read(samples, 0).label, ElementsAre(2));
}

TEST_F(ArraySamplesTest, FortranOrderIsRead) {
  // In memory as it lies in the file: element (i, j, k) is 100 i + 10 j + k.
  std::vector<double> numbers;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) numbers.push_back(100 * i + 10 * j + k);
  write("inputs.npy", npy<double>("<f8", {2, 3, 4}, numbers, true));
  write("targets.npy", npy<float>("<f4", {2}, {1, 2}, true));
  const ArraySamples samples(folder_.path());
  EXPECT_THAT(samples.layout().input_shape, ElementsAre(1, 3, 4));
  EXPECT_THAT(read(samples, 1).input,
              ElementsAre(100, 101, 102, 103, 110, 111, 112, 113, 120, 121, 122, 123));
  EXPECT_THAT(read(samples, 1).target, ElementsAre(2));
  EXPECT_THAT(samples.warnings(),
              ElementsAre(AllOf(HasSubstr("inputs.npy"), HasSubstr("numpy.ascontiguousarray"))));

  // Of files with a sample each some may lie one way and some the other.
  std::filesystem::remove(folder_ / "inputs.npy");
  write("inputs/s0.npy", npy<float>("<f4", {2, 3}, {0, 1, 2, 10, 11, 12}));
  write("inputs/s1.npy", npy<float>("<f4", {2, 3}, {0, 10, 1, 11, 2, 12}, true));
  const ArraySamples files(folder_.path());
  EXPECT_THAT(read(files, 0).input, ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_THAT(read(files, 1).input, ElementsAre(0, 1, 2, 10, 11, 12));
}

TEST_F(ArraySamplesTest, NumbersBeyondFloat32AreRefusedWhenRead) {
  const auto infinite = std::numeric_limits<double>::infinity();
  write("inputs.npy", npy<double>("<f8", {2, 2}, {infinite, 3e38, 1, 1e300}));
  write("targets.npy", npy<float>("<f4", {2}, {1, 2}));
  const ArraySamples samples(folder_.path());
  EXPECT_THAT(read(samples, 0).input, ElementsAre(std::numeric_limits<float>::infinity(), 3e38F));
  EXPECT_THAT(message_of<InputError>([&] { (void)read(samples, 1); }),
              AllOf(HasSubstr("inputs.npy: sample 1 holds 1e+300"), HasSubstr("float32")));
  std::filesystem::remove(folder_ / "targets.npy");
  write("labels.npy", npy<std::uint64_t>("<u8", {2}, {0, std::uint64_t{1} << 63}));
  EXPECT_THAT(error(), AllOf(HasSubstr("labels.npy: sample 1 holds 9.22"), HasSubstr("64 bits")));
}

TEST_F(ArraySamplesTest, FilesBesideAnArrayAreInNaturalOrder) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 12; ++i) {
    write(fmt::format("inputs/{}.npy", i), npy<float>("<f4", {1}, {static_cast<float>(i)}));
    labels.push_back(i);
  }
  write("labels.npy", npy<std::int64_t>("<i8", {12}, labels));
  const ArraySamples samples(folder_.path());
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_THAT(read(samples, i).input, ElementsAre(static_cast<float>(i)));
    EXPECT_THAT(read(samples, i).label, ElementsAre(i));
  }
  EXPECT_THAT(samples.warnings(),
              ElementsAre(AllOf(HasSubstr("natural order (0.npy, 1.npy, 2.npy and 9 more)"),
                                HasSubstr("9.npy comes before 10.npy"), HasSubstr("sorted()"))));
  write("inputs/10.NPY", "");
  EXPECT_THAT(ArraySamples(folder_.path()).warnings().front(),
              HasSubstr("is no .npy file and left out: 10.NPY"));
}

TEST_F(ArraySamplesTest, NamesThatLeaveTheirOrderOpenAreRefused) {
  for (const auto* name : {"0.25", "0.5", "0.75"})
    write(fmt::format("inputs/{}.npy", name), npy<float>("<f4", {1}, {1}));
  write("labels.npy", npy<std::int64_t>("<i8", {3}, {0, 1, 2}));
  EXPECT_THAT(error(), AllOf(HasSubstr("labels.npy"), HasSubstr("0.5.npy or 0.25.npy")));
  // Files that are matched by name have no order to be doubted.
  std::filesystem::remove(folder_ / "labels.npy");
  for (const auto* name : {"0.25", "0.5", "0.75"})
    write(fmt::format("labels/{}.npy", name), npy<std::int64_t>("<i8", {}, {1}));
  EXPECT_EQ(ArraySamples(folder_.path()).size(), 3);
  std::filesystem::rename(folder_ / "labels" / "0.75.npy", folder_ / "labels" / "0.8.npy");
  EXPECT_THAT(error(), AllOf(HasSubstr("must have the same names"), HasSubstr("0.8.npy")));
  write("inputs.npy", npy<float>("<f4", {3}, {1, 2, 3}));
  EXPECT_THAT(error(), HasSubstr("there are both"));
}

TEST_F(ArraySamplesTest, AFolderHasAFileForEachSample) {
  for (const int i : {2, 0, 1}) {
    const auto value = static_cast<float>(i);
    write(fmt::format("inputs/s{}.npy", i), npy<float>("<f4", {1, 1, 2}, {value, 10 * value}));
    write(fmt::format("targets/s{}.npy", i), npy<float>("<f4", {2, 1}, {-value, value}));
  }
  write("inputs/notes.txt", "");
  const ArraySamples samples(folder_.path());
  EXPECT_EQ(samples.size(), 3);
  EXPECT_THAT(samples.layout().target_shape, ElementsAre(2, 1));
  EXPECT_THAT(read(samples, 1).input, ElementsAre(1, 10));
  EXPECT_THAT(read(samples, 2).target, ElementsAre(-2, 2));

  write("inputs/s3.npy", npy<float>("<f4", {1, 1, 3}, {1, 2, 3}));
  EXPECT_THAT(error(), AllOf(HasSubstr("s3.npy"), HasSubstr("all samples must be alike")));
  write("inputs/s3.npy", npy<float>("<f4", {1, 1, 2}, {1, 2}));
  EXPECT_THAT(error(), HasSubstr("has 4 samples, but "));
  write("targets/other.npy", npy<float>("<f4", {2, 1}, {1, 2}));
  EXPECT_THAT(error(), AllOf(HasSubstr("must have the same names"), HasSubstr("other.npy")));
}

TEST_F(ArraySamplesTest, SeveralArraysMakeUpASample) {
  write("image.npy", npy<std::uint8_t>("|u1", {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 8}));
  write("parameters.npy", npy<double>("<f8", {2, 3}, {.5, 1, 2, 3, 4, 5}));
  write("height.npy", npy<float>("<f4", {2}, {7, 9}));
  write("labels.npy", npy<std::int64_t>("<i8", {2}, {0, 1}));
  const ArraySamplesOptions options{.divisor = 2, .inputs = {"image", "parameters"}};
  const ArraySamples classes(folder_.path(), options);
  EXPECT_EQ(classes.size(), 2);
  EXPECT_EQ(classes.layout().classes, 2);
  EXPECT_THAT(classes.layout().input_shape, ElementsAre(7));
  EXPECT_THAT(classes.layout().input_parts, ElementsAre(ElementsAre(1, 2, 2), ElementsAre(3)));
  EXPECT_THAT(read(classes, 1).input, ElementsAre(2, 2.5, 3, 4, 1.5, 2, 2.5));

  const ArraySamples numbers(folder_.path(), {.inputs = {"parameters", "height"},
                                              .targets = {"height", "image"}});  // labels aside
  EXPECT_EQ(numbers.layout().classes, 0);
  EXPECT_THAT(numbers.layout().input_parts, ElementsAre(ElementsAre(3), ElementsAre(1)));
  EXPECT_THAT(numbers.layout().target_shape, ElementsAre(5));
  EXPECT_THAT(numbers.layout().target_parts, ElementsAre(ElementsAre(1), ElementsAre(2, 2)));
  EXPECT_THAT(read(numbers, 1).input, ElementsAre(3, 4, 5, 9));
  EXPECT_THAT(read(numbers, 0).target, ElementsAre(7, 0, 1, 2, 3));

  // One of another name is as `inputs` would be.
  const ArraySamples one(folder_.path(), {.inputs = {"image"}});
  EXPECT_THAT(one.layout().input_shape, ElementsAre(1, 2, 2));
  EXPECT_TRUE(one.layout().input_parts.empty());
}

TEST_F(ArraySamplesTest, SeveralArraysMustBelongTogether) {
  write("labels.npy", npy<std::int64_t>("<i8", {2}, {0, 1}));
  write("image.npy", npy<float>("<f4", {2, 1}, {1, 2}));
  const ArraySamplesOptions options{.inputs = {"image", "parameters"}};
  EXPECT_THAT(error(options), AllOf(HasSubstr("has no parameters; expected inputs"),
                                    HasSubstr("that data.inputs and data.targets name")));
  EXPECT_THAT(error({.inputs = {"image"}, .targets = {"gas"}}), HasSubstr("has no gas; expected"));
  EXPECT_THAT(error({.inputs = {}}), HasSubstr("need the name of an input"));
  write("parameters.npy", npy<float>("<f4", {3, 1}, {1, 2, 3}));
  EXPECT_THAT(error(options),
              AllOf(HasSubstr("image.npy has 2 samples"), HasSubstr("parameters.npy has 3")));
  for (const auto* name : {"left/s0", "left/s1", "right/s0", "right/s2"})
    write(std::string(name) + ".npy", npy<float>("<f4", {1}, {1}));
  EXPECT_THAT(error({.inputs = {"left", "right"}}),
              AllOf(HasSubstr("must have the same names"), HasSubstr("s1.npy and s2.npy")));
}

TEST_F(ArraySamplesTest, WhatIsNotSuchSamplesIsRefusedByName) {
  EXPECT_THAT(error(), HasSubstr("has no inputs; expected inputs, and either targets"));
  EXPECT_THAT(error({}, "nowhere"), HasSubstr("does not exist"));
  write("inputs.npy", npy<float>("<f4", {2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(error(), HasSubstr("neither targets nor labels"));
  write("labels.npy", npy<std::int64_t>("<i8", {3}, {2, 0, 4}));
  EXPECT_THAT(error(), AllOf(HasSubstr("inputs.npy has 2 samples"), HasSubstr("has 3")));
  write("labels.npy", npy<std::int64_t>("<i8", {2}, {0, -1}));
  EXPECT_THAT(error(), HasSubstr("the label of sample 1 is -1, expected 0 to"));
  write("labels.npy", npy<std::int64_t>("<i8", {2}, {0, 3}));
  EXPECT_THAT(error({.classes = 3}), HasSubstr("the label of sample 1 is 3, expected 0 to 2"));
  write("labels.npy", npy<float>("<f4", {2}, {0, 3}));
  EXPECT_THAT(error(), HasSubstr("labels are one whole number each"));
  write("labels.npy", npy<std::int64_t>("<i8", {2, 2}, {0, 3, 0, 0}));
  EXPECT_THAT(error(), HasSubstr("labels are one whole number each"));
  write("labels.npy", npy<std::int64_t>("|O", {2}, {0, 3}));
  EXPECT_THAT(error(), HasSubstr("Python objects"));
  write("labels.npy", npy<std::int64_t>("<i8", {2}, {0}));
  EXPECT_THAT(error(), HasSubstr("truncated"));
  write("labels.npy", npy<std::int64_t>("<i8", {2}, {0, 3}));
  write("targets.npy", npy<float>("<f4", {2}, {0, 3}));
  EXPECT_THAT(error(), HasSubstr("both targets and labels"));
  EXPECT_THAT(error({.divisor = 0}), HasSubstr("divided by 0"));
  EXPECT_THAT(error({}, "labels.npy"), HasSubstr("it is one .npy array"));
  write("all.npz", "PK\x03\x04");
  EXPECT_THAT(error({}, "all.npz"), HasSubstr("unzip"));
  std::filesystem::remove(folder_ / "targets.npy");
  write("inputs.npy", npy<float>("<f4", {0, 3}, {}));
  EXPECT_THAT(error(), HasSubstr("expected samples in front, at least one"));
}

}  // namespace
}  // namespace kolo
