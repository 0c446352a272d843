// Samples of one's own in either format.
#include "kolo/data/array_samples.h"

#include <limits>

#include <fmt/format.h>

#include "data/array_files.h"
#include "data/read_sample.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

// Arrays are files of a folder, or datasets of a file.
class Arrays : public ::testing::TestWithParam<std::string> {
 protected:
  Arrays() {
    if (!is_npy()) H5Fclose(testing::open_or_make_hdf5(path()));
  }
  [[nodiscard]] static bool is_npy() { return GetParam() == "npy"; }
  [[nodiscard]] std::filesystem::path path() const {
    return is_npy() ? folder_.path() : folder_ / "all.h5";
  }
  // No samples of the file may be open.
  template <typename T>
  void write(const std::string& name, const std::vector<std::int64_t>& shape,
             const std::vector<T>& numbers, bool is_big_endian = false) const {
    if (is_npy())
      folder_.write(name + ".npy", testing::npy_array(shape, numbers, is_big_endian));
    else
      testing::put_hdf5_array(path(), name, shape, numbers, is_big_endian);
  }
  void remove(const std::string& name) const {
    if (is_npy())
      std::filesystem::remove(path() / (name + ".npy"));
    else
      testing::remove_hdf5_array(path(), name);
  }
  // Name of an array in messages.
  [[nodiscard]] std::string named(const std::string& name) const {
    return is_npy() ? (path() / (name + ".npy")).string() : name + " of " + path().string();
  }
  [[nodiscard]] ArraySamples samples(const ArraySamplesOptions& options = {}) const {
    return ArraySamples(path(), options);
  }
  [[nodiscard]] std::string error(const ArraySamplesOptions& options = {}) const {
    return message_of<InputError>([&] { (void)samples(options); });
  }

  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Formats, Arrays, ::testing::Values("npy", "hdf5"),
                         [](const auto& format) { return format.param; });

TEST_P(Arrays, HaveTheSamplesInFront) {
  write<std::uint8_t>("inputs", {3, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255});
  write<std::int64_t>("labels", {3}, {2, 0, 4});
  const auto all = samples({.divisor = 255});
  EXPECT_EQ(all.size(), 3);
  EXPECT_THAT(all.layout().input_shape, ElementsAre(1, 2, 2));
  EXPECT_EQ(all.layout().classes, 5);
  const auto last = read_sample(all, 2);
  EXPECT_THAT(last.input, ElementsAre(8 / 255.F, 9 / 255.F, 10 / 255.F, 1));
  EXPECT_EQ(last.label, 4);
  EXPECT_EQ(samples({.classes = 7}).layout().classes, 7);
}

TEST_P(Arrays, MayBeOfAllTypesOfNumbers) {
  write<double>("targets", {2}, {.5, -2});
  const auto expect_read = [&]<typename T>(T) {
    write<T>("inputs", {2, 3}, {T(1), T(2), T(3), T(4), T(5), T(100)});
    const auto all = samples();
    EXPECT_THAT(all.layout().input_shape, ElementsAre(3));
    EXPECT_THAT(all.layout().target_shape, ElementsAre(1));
    EXPECT_THAT(read_sample(all, 1).input, ElementsAre(4, 5, 100));
    EXPECT_THAT(read_sample(all, 1).target, ElementsAre(-2));
  };
  expect_read(float());
  expect_read(double());
  expect_read(std::int64_t());
  expect_read(std::int32_t());
  expect_read(std::int16_t());
  expect_read(std::int8_t());
  expect_read(std::uint64_t());
  expect_read(std::uint32_t());
  expect_read(std::uint16_t());
  expect_read(std::uint8_t());
  write<std::uint64_t>("inputs", {2}, {1, std::uint64_t{1} << 63});
  EXPECT_THAT(read_sample(samples(), 1).input, ElementsAre(0x1p63F));
}

TEST_P(Arrays, MayBeBigEndianInHdf5) {
  write<float>("inputs", {2, 2}, {1.5F, -2, 1e-3F, 7}, true);
  write<std::int64_t>("labels", {2}, {2, 1}, true);
  if (is_npy()) {
    EXPECT_TRUE(says(error(), {"inputs.npy", "which is big-endian"}));
    return;
  }
  EXPECT_THAT(read_sample(samples(), 1).input, ElementsAre(1e-3F, 7));
  EXPECT_EQ(read_sample(samples(), 0).label, 2);
}

TEST_P(Arrays, AreRefusedWhenReadForNumbersBeyondFloat32) {
  const auto infinite = std::numeric_limits<double>::infinity();
  write<double>("inputs", {2, 2}, {infinite, 3e38, 1, 1e300});
  write<float>("targets", {2}, {1, 2});
  {
    const auto all = samples();
    EXPECT_THAT(read_sample(all, 0).input,
                ElementsAre(std::numeric_limits<float>::infinity(), 3e38F));
    EXPECT_TRUE(says(message_of<InputError>([&] { (void)read_sample(all, 1); }),
                     {named("inputs") + ": sample 1 holds 1e+300", "float32 can't represent"}));
  }
  remove("targets");
  write<std::uint64_t>("labels", {2}, {0, std::uint64_t{1} << 63});
  EXPECT_TRUE(says(error(), {named("labels") + ": sample 1 holds 9.22", "64 bits"}));
}

TEST_P(Arrays, MakeUpASampleTogether) {
  write<std::uint8_t>("image", {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 8});
  write<double>("parameters", {2, 3}, {.5, 1, 2, 3, 4, 5});
  write<float>("height", {2}, {7, 9});
  write<std::int64_t>("labels", {2}, {0, 1});
  const auto classes = samples({.divisor = 2, .inputs = {"image", "parameters"}});
  EXPECT_EQ(classes.size(), 2);
  EXPECT_EQ(classes.layout().classes, 2);
  EXPECT_THAT(classes.layout().input_shape, ElementsAre(7));
  EXPECT_THAT(classes.layout().input_shapes, ElementsAre(ElementsAre(1, 2, 2), ElementsAre(3)));
  EXPECT_THAT(read_sample(classes, 1).input, ElementsAre(2, 2.5, 3, 4, 1.5, 2, 2.5));

  const auto numbers =  // labels aside
      samples({.inputs = {"parameters", "height"}, .targets = {"height", "image"}});
  EXPECT_EQ(numbers.layout().classes, 0);
  EXPECT_THAT(numbers.layout().input_shapes, ElementsAre(ElementsAre(3), ElementsAre(1)));
  EXPECT_THAT(numbers.layout().target_shape, ElementsAre(5));
  EXPECT_THAT(numbers.layout().target_shapes, ElementsAre(ElementsAre(1), ElementsAre(2, 2)));
  EXPECT_THAT(read_sample(numbers, 1).input, ElementsAre(3, 4, 5, 9));
  EXPECT_THAT(read_sample(numbers, 0).target, ElementsAre(7, 0, 1, 2, 3));

  // One of another name is as `inputs` would be.
  const auto one = samples({.inputs = {"image"}});
  EXPECT_THAT(one.layout().input_shape, ElementsAre(1, 2, 2));
  EXPECT_TRUE(one.layout().input_shapes.empty());
}

TEST_P(Arrays, MustBelongTogether) {
  write<std::int64_t>("labels", {2}, {0, 1});
  write<float>("image", {2, 1}, {1, 2});
  const ArraySamplesOptions options{.inputs = {"image", "parameters"}};
  EXPECT_TRUE(says(error(options), {"has no parameters; expected inputs",
                                    "that data.inputs and data.targets name"}));
  EXPECT_TRUE(says(error({.inputs = {"image"}, .targets = {"gas"}}), {"has no gas; expected"}));
  EXPECT_TRUE(says(error({.inputs = {}}), {"need the name of an input"}));
  write<float>("parameters", {3, 1}, {1, 2, 3});
  EXPECT_TRUE(
      says(error(options), {named("image") + " has 2 samples", named("parameters") + " has 3"}));
}

TEST_P(Arrays, ThatAreNoSamplesAreRefusedByName) {
  EXPECT_TRUE(says(error(), {"has no inputs; expected inputs, and either targets"}));
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)ArraySamples(folder_ / "nowhere"); }),
                   {"does not exist"}));
  write<float>("inputs", {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(says(error(), {"neither targets nor labels; expected"}));
  write<std::int64_t>("labels", {3}, {2, 0, 4});
  EXPECT_TRUE(says(error(), {named("inputs") + " has 2 samples", "has 3"}));
  write<std::int64_t>("labels", {2}, {0, -1});
  EXPECT_TRUE(says(error(), {"the label of sample 1 is -1, expected 0 to"}));
  write<std::int64_t>("labels", {2}, {0, 3});
  EXPECT_TRUE(says(error({.classes = 3}), {"the label of sample 1 is 3, expected 0 to 2"}));
  write<std::int64_t>("labels", {2}, {0, 500000000});
  EXPECT_TRUE(says(error(), {named("labels") + ": the label of sample 1 is 500000000, which makes "
                                               "500000001 classes of 2 samples",
                             "data.n_classes"}));
  EXPECT_EQ(ArraySamples(path(), {.classes = 500000001}).layout().classes, 500000001);
  write<std::int64_t>("labels", {2}, {0, 99999});
  EXPECT_EQ(ArraySamples(path()).layout().classes, 100000);
  write<float>("labels", {2}, {0, 3});
  EXPECT_TRUE(says(error(), {"labels are one whole number each"}));
  write<std::int64_t>("labels", {2, 2}, {0, 3, 0, 0});
  EXPECT_TRUE(says(error(), {"labels are one whole number each"}));
  write<std::int64_t>("labels", {2}, {0, 3});
  write<float>("targets", {2}, {0, 3});
  EXPECT_TRUE(says(error(), {"both targets and labels"}));
  EXPECT_TRUE(says(error({.divisor = 0}), {"divided by 0"}));
  remove("targets");
  write<float>("inputs", {0, 3}, {});
  EXPECT_TRUE(says(error(), {"expected samples in front, at least one"}));
}

// Folders of .npy files: what HDF5 has not.
class NpyArrays : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    folder_.write(name, content);
  }
  [[nodiscard]] std::string error(const ArraySamplesOptions& options = {},
                                  const std::string& name = "") const {
    return message_of<InputError>([&] { (void)ArraySamples(folder_ / name, options); });
  }

  TemporaryFolder folder_;
};

TEST_F(NpyArrays, FilesBesideAnArrayAreInNaturalOrder) {
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
              ElementsAre(AllOf(HasSubstr("in natural order"),
                                HasSubstr("9.npy comes before 10.npy"), HasSubstr("sorted()"))));
  write("inputs/10.NPY", "");
  EXPECT_TRUE(says(ArraySamples(folder_.path()).warnings().front(),
                   {"is no .npy file and left out: 10.NPY"}));
}

TEST_F(NpyArrays, FilesOfTwoFoldersAreMatchedByName) {
  for (const auto* name : {"0.25", "0.5", "0.75"}) {
    write(fmt::format("inputs/{}.npy", name), npy_array<float>("<f4", {1}, {1}));
    write(fmt::format("labels/{}.npy", name), npy_array<std::int64_t>("<i8", {}, {1}));
  }
  const ArraySamples samples(folder_.path());
  EXPECT_EQ(samples.size(), 3);
  EXPECT_THAT(samples.warnings(), IsEmpty());
  std::filesystem::rename(folder_ / "labels" / "0.75.npy", folder_ / "labels" / "0.8.npy");
  EXPECT_TRUE(says(error(), {"must have the same names", "0.8.npy"}));
  write("inputs.npy", npy_array<float>("<f4", {3}, {1, 2, 3}));
  EXPECT_TRUE(says(error(), {"there are both"}));
}

TEST_F(NpyArrays, AFolderHasAFileForEachSample) {
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

TEST_F(NpyArrays, HalvesAreRead) {
  write("inputs.npy", npy_array<std::uint16_t>("<f2", {2, 2}, {0x3c00, 0xc000, 0x3555, 0x7bff}));
  write("targets.npy", npy_array<double>({2}, {.5, -2}));
  EXPECT_THAT(read_sample(ArraySamples(folder_.path()), 1).input,
              ElementsAre(0.333251953125F, 65504));
}

TEST_F(NpyArrays, FilesOfSeveralInputsHaveTheSameNames) {
  write("labels.npy", npy_array<std::int64_t>({2}, {0, 1}));
  for (const auto* name : {"left/s0", "left/s1", "right/s0", "right/s2"})
    write(std::string(name) + ".npy", npy_array<float>({1}, {1}));
  EXPECT_TRUE(says(error({.inputs = {"left", "right"}}),
                   {"must have the same names", "s1.npy and s2.npy"}));
}

TEST_F(NpyArrays, OtherFilesAreRefusedByName) {
  write("labels.npy", npy_array<std::int64_t>({2}, {0, 1}));
  EXPECT_TRUE(says(error({}, "labels.npy"), {"it is one .npy array"}));
  write("all.npz", "PK\x03\x04");
  EXPECT_TRUE(says(error({}, "all.npz"), {"unzip"}));
}

}  // namespace
}  // namespace kolo::testing
