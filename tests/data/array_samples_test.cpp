#include "kolo/data/array_samples.h"

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <hdf5.h>

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
                const std::vector<T>& numbers) {
  auto text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                          fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
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
  write("labels.npy", npy<std::int64_t>(">i8", {2}, {0, 3}));
  EXPECT_THAT(error(), AllOf(HasSubstr("big-endian"), HasSubstr("<f4, <f8, ")));
  write("labels.npy", npy<std::int64_t>("<i8", {2}, {0}));
  EXPECT_THAT(error(), HasSubstr("truncated"));
  write("labels.npy", npy<std::int64_t>("<i8", {2}, {0, 3}));
  write("targets.npy", npy<float>("<f4", {2}, {0, 3}));
  EXPECT_THAT(error(), HasSubstr("both targets and labels"));
  EXPECT_THAT(error({.divisor = 0}), HasSubstr("divided by 0"));
  EXPECT_THAT(error({}, "labels.npy"), HasSubstr("cannot read"));
}

// A dataset of an HDF5 file, in chunks where these are given.
template <typename T>
void add_dataset(hid_t file, const char* name, hid_t type, std::vector<hsize_t> shape,
                 const std::vector<T>& numbers, hsize_t samples_per_chunk = 0) {
  const auto rank = static_cast<int>(shape.size());
  const hid_t space = H5Screate_simple(rank, shape.data(), nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  if (samples_per_chunk > 0) {
    auto chunk = shape;
    chunk[0] = samples_per_chunk;
    ASSERT_GE(H5Pset_chunk(creation, rank, chunk.data()), 0);
  }
  const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
  H5Dclose(dataset);
  H5Pclose(creation);
  H5Sclose(space);
}

TEST_F(ArraySamplesTest, Hdf5HasTheArraysAsDatasets) {
  const auto path = (folder_ / "all.h5").string();
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  add_dataset<double>(file, "inputs", H5T_NATIVE_DOUBLE, {3, 2}, {1, 2, 3, 4, 5, 6}, 2);
  add_dataset<std::int32_t>(file, "labels", H5T_NATIVE_INT32, {3, 1}, {1, 0, 2});
  H5Fclose(file);
  {
    const ArraySamples samples(path);
    EXPECT_EQ(samples.size(), 3);
    EXPECT_EQ(samples.layout().classes, 3);
    EXPECT_THAT(read(samples, 1).input, ElementsAre(3, 4));
    EXPECT_THAT(read(samples, 2).label, ElementsAre(2));
    const ArraySamples both(path, {.inputs = {"labels", "inputs"}, .targets = {"inputs"}});
    EXPECT_THAT(both.layout().input_parts, ElementsAre(ElementsAre(1), ElementsAre(2)));
    EXPECT_THAT(read(both, 2).input, ElementsAre(2, 5, 6));
  }
  const hid_t again = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Ldelete(again, "labels", H5P_DEFAULT);
  H5Fclose(again);
  EXPECT_THAT(error({}, "all.h5"), HasSubstr("neither targets nor labels; expected"));
}

}  // namespace
}  // namespace kolo
