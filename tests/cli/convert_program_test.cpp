// kolo data convert, through the binary.
#include <gmock/gmock.h>

#include "cli/program.h"
#include "kolo/base/file.h"
#include "kolo/data/box_files.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

class ConvertProgram : public ::testing::Test {
 protected:
  ConvertProgram() {
    box.size = 6;
    for (int i = 0; i < 4 * 216; ++i) box.nbody.push_back(static_cast<float>(i));
    for (int i = 0; i < 5 * 216; ++i) box.hydro.push_back(static_cast<float>(-i));
    box.parameters = {{"seed", 5}};
    write_box_hdf5(box, folder / "box.h5");
  }
  ProcessResult convert(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"data", "convert"});
    return run_kolo(arguments);
  }
  void expect_refused(const ProcessResult& result, const std::string& words) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.output, "");
    EXPECT_TRUE(says(result.errors, {words}));
  }
  void expect_holds_the_box(const fs::path& path) {
    const BoxFile file(path);
    for (const auto field : {BoxField::nbody, BoxField::hydro}) {
      std::vector<float> values(static_cast<std::size_t>(channels_of(field) * 216));
      file.read_planes(field, 0, 6, values);
      EXPECT_EQ(values, field == BoxField::nbody ? box.nbody : box.hydro);
    }
  }

  TemporaryFolder folder;
  SimulationBox box;
};

TEST_F(ConvertProgram, GoesBothWays) {
  const auto result = convert({folder / "box.h5", "-o", folder / "pair"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(says(result.output, {"pair_data.npy and ", "pair_label.npy", "6^3 cells, 7.59 KiB"}));
  expect_holds_the_box(folder / "pair");
  EXPECT_EQ(convert({folder / "pair_label.npy", "-o", folder / "back", "--chunk", "4"}).exit_code,
            0);
  expect_holds_the_box(folder / "back");
  EXPECT_EQ(BoxFile(folder / "back").layout(BoxField::nbody).chunk,
            (std::vector<std::int64_t>{1, 4, 4, 4}));
  EXPECT_EQ(convert({folder / "back", "-o", folder / "plain.h5"}).exit_code, 0);
  EXPECT_TRUE(BoxFile(folder / "plain.h5").layout(BoxField::nbody).chunk.empty());
  EXPECT_EQ(convert({folder / "box.h5", "-o", folder / "again_data.npy"}).exit_code, 0);
  expect_holds_the_box(folder / "again");
}

TEST_F(ConvertProgram, ReplacesOnlyWhenTold) {
  folder.write("pair_data.npy", "precious");
  const auto result = convert({folder / "box.h5", "-o", folder / "pair"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(says(result.errors, {"is there already; --force replaces it"}));
  EXPECT_EQ(read_text_file(folder / "pair_data.npy"), "precious");
  EXPECT_EQ(convert({folder / "box.h5", "-o", folder / "pair", "--force"}).exit_code, 0);
  expect_holds_the_box(folder / "pair");
}

TEST_F(ConvertProgram, SaysWhatIsWrong) {
  expect_refused(convert({folder / "none.h5", "-o", folder / "a"}), "neither");
  expect_refused(convert({folder / "box.h5"}), "--output");
  expect_refused(convert({folder / "box.h5", "-o", folder / "a", "--chunk", "4"}),
                 "--chunk is for HDF5");
  expect_refused(convert({folder / "box.h5", "-o", folder / "a.h5", "--to", "npy"}),
                 "does not go with the name");
  expect_refused(convert({folder / "box.h5", "-o", folder / "a.npy"}), "a pair of .npy files");
  expect_refused(convert({folder / "box.h5", "-o", folder / "a", "--to", "zip"}), "zip");
  expect_refused(convert({folder / "box.h5", "-o", folder / "a.csv"}), "HDF5, or a pair of .npy");
  expect_refused(convert({folder / "box.h5", "-o", folder / "box.h5", "--force"}), "what is read");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing was written";
}

}  // namespace
}  // namespace kolo::testing
