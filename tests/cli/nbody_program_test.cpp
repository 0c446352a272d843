// kolo data nbody, through the binary.
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "kolo/base/file.h"
#include "kolo/data/array_file.h"
#include "kolo/data/box_files.h"
#include "kolo/tools/generators.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

class NbodyProgram : public ::testing::Test {
 protected:
  ProcessResult make(const std::vector<std::string>& more) {
    return run_kolo(joined({"data", "nbody", "-o", folder / "new/box.h5"}, more));
  }

  void expect_refused(const std::vector<std::string>& more, const std::string& words) {
    testing::expect_refused(make(more), words);
  }

  TemporaryFolder folder;
};

std::vector<float> read_field(const BoxFile& box, BoxField field) {
  std::vector<float> values(
      static_cast<std::size_t>(channels_of(field) * box.size() * box.size() * box.size()));
  box.read_planes(field, 0, box.size(), values);
  return values;
}

TEST_F(NbodyProgram, MakesABox) {
  const auto result = make({"--size", "32", "--seed", "3", "--crop", "16"});
  ASSERT_TRUE(succeeds(
      result, {"box.h5 (", "16 x 16 x 16 cells, seed 3", "matter: density 0.", "temperature -0."}));
  EXPECT_FALSE(says(result.output, {"\x1b"}));
  const auto expected = make_cosmology_box({.size = 32, .seed = 3, .crop = 16});
  const BoxFile box(folder / "new/box.h5");
  std::vector<std::pair<std::string, double>> parameters;
  const auto attributes = read_hdf5_attributes(folder / "new/box.h5");
  for (const auto& [name, value] : attributes.items())
    parameters.emplace_back(name, value.get<double>());
  EXPECT_THAT(parameters, ::testing::UnorderedElementsAreArray(expected.parameters));
  EXPECT_EQ(box.size(), 16);
  EXPECT_EQ(read_field(box, BoxField::nbody), expected.nbody);
  EXPECT_EQ(read_field(box, BoxField::hydro), expected.hydro);
}

TEST_F(NbodyProgram, ReplacesNothingUnasked) {
  folder.write("new/box.h5", "mine");
  expect_refused({"--size", "16"}, "box.h5 is there already");
  EXPECT_EQ(read_text_file(folder / "new/box.h5"), "mine");
  EXPECT_EQ(make({"--size", "16", "--force"}).exit_code, 0);
  EXPECT_EQ(BoxFile(folder / "new/box.h5").size(), 16);
}

TEST_F(NbodyProgram, SaysWhatIsWrongBeforeAnyWork) {
  expect_refused({"--size", "33"}, "33 cells per edge: expected an even number, 16 to 1024");
  expect_refused({"--size", "8"}, "16 to 1024");
  expect_refused({"--size", "many"}, "--size");
  expect_refused({"--crop", "256"}, "256 cells per edge cut out of 128");
  expect_refused({"--crop", "0"}, "--crop");
  expect_refused({"--seed", "-1"}, "--seed");
  EXPECT_FALSE(fs::exists(folder / "new"));
  folder.write("new", "a file where a folder should be");
  expect_refused({"--size", "16"}, "is there, and no folder");
}

TEST_F(NbodyProgram, RefusesANameThatPromisesAnotherFormat) {
  for (const std::string name : {"box.npy", "box.json", "box.H5"}) {
    const auto result = run_kolo({"data", "nbody", "--size", "16", "-o", folder / name});
    EXPECT_TRUE(is_refused(result, {"ends with .h5 or .hdf5"})) << name;
    EXPECT_FALSE(fs::exists(folder / name));
  }
}

}  // namespace
}  // namespace kolo::testing
