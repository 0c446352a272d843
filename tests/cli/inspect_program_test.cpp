// kolo data inspect, through the binary.
#include <limits>

#include <torch/types.h>

#include "cli/program.h"
#include "data/boxes/boxes.h"
#include "data/images/image_files.h"
#include "kolo/data/box_files.h"
#include "kolo/train/checkpoint/safetensors.h"
#include "support/cifar10_files.h"
#include "support/idx_files.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Json = nlohmann::json;

class InspectProgram : public ::testing::Test {
 protected:
  InspectProgram() {
    box.size = 4;
    for (int i = 0; i < 4 * 64; ++i) box.nbody.push_back(static_cast<float>(i / 64) / 4);
    for (int i = 0; i < 5 * 64; ++i) box.hydro.push_back(static_cast<float>(i % 64) / 64);
    box.parameters = {{"seed", 5}};
  }
  ProcessResult inspect(const std::string& path) { return run_kolo({"data", "inspect", path}); }
  Json inspected(const std::string& path, const std::vector<std::string>& more = {}) {
    return json_of(joined({"data", "inspect", path}, more));
  }

  TemporaryFolder folder;
  SimulationBox box;
};

TEST_F(InspectProgram, ShowsBoxes) {
  write_box_hdf5(box, folder / "plain.h5");
  write_box_like(folder / "chunks.bin", box, {.chunk = {1, 2, 2, 2}});
  write_box_npy(box, folder / "pair");
  for (const auto* const name : {"plain.h5", "chunks.bin", "pair"}) {
    SCOPED_TRACE(name);
    const auto json = inspected(folder / name);
    EXPECT_EQ(json["bytes"].get<int>() / 9, 64 * 4);
    const auto& channels = json["arrays"][1]["channels"];
    ASSERT_EQ(channels.size(), 5U);
    EXPECT_EQ(channels[4]["name"], "T");
    EXPECT_EQ(channels[4]["min"], 0);
    EXPECT_EQ(channels[4]["max"], 63. / 64);
    EXPECT_EQ(channels[4]["mean"], 31.5 / 64);
    EXPECT_EQ(json["arrays"][0]["channels"][2]["min"], .5);
  }
  const auto chunked = inspected(folder / "chunks.bin");
  EXPECT_EQ(chunked["format"], "simulation box, HDF5");
  EXPECT_EQ(chunked["arrays"][0]["chunk"], Json({1, 2, 2, 2}));
  EXPECT_EQ(chunked["arrays"][0]["shape"], Json({4, 4, 4, 4}));
  EXPECT_EQ(inspected(folder / "plain.h5")["facts"]["seed"], 5);
  EXPECT_TRUE(says(chunked["advice"].dump(), {"kolo data convert"}));
  EXPECT_EQ(inspected(folder / "pair")["arrays"][0]["name"], "pair_data.npy");
  EXPECT_THAT(inspected(folder / "plain.h5", {"--quick"})["arrays"][0]["channels"], IsEmpty());
  EXPECT_TRUE(says(inspect(folder / "plain.h5").output,
                   {"Nbody      4 x 4 x 4 x 4 of float32", "seed: 5"}));
}

TEST_F(InspectProgram, AdvisesOnNumbers) {
  box.hydro[0] = std::numeric_limits<float>::quiet_NaN();
  box.nbody[70] = 3;
  write_box_hdf5(box, folder / "box.h5");
  const auto json = inspected(folder / "box.h5");
  EXPECT_EQ(json["arrays"][1]["channels"][0]["not_finite"], 1);
  EXPECT_TRUE(says(json["advice"].dump(), {"Nbody's vx runs from 0.25 to 3"}));
  EXPECT_TRUE(says(inspect(folder / "box.h5").output, {"1 not finite"}));
}

TEST_F(InspectProgram, ShowsArrays) {
  const auto bytes = npy_array<float>({2, 3}, {1, 2, 3, 4, 5, 9});
  const auto npy = inspected(folder.write("some.npy", bytes));
  EXPECT_EQ(npy["format"], ".npy array");
  EXPECT_EQ(npy["arrays"][0]["shape"], Json({2, 3}));
  EXPECT_EQ(npy["arrays"][0]["channels"][0]["mean"], 4);
  EXPECT_EQ(npy["arrays"][0]["channels"][0]["max"], 9);

  const auto idx = inspected(folder.write("digits", idx_bytes(8, {2, 2}, "\x01\x02\x03\xfe")));
  EXPECT_EQ(idx["format"], "IDX");
  EXPECT_EQ(idx["arrays"][0]["type"], "uint8");
  EXPECT_EQ(idx["arrays"][0]["channels"][0]["max"], 254);

  std::filesystem::create_directory(folder / "mnist");
  folder.write("mnist/t10k-labels-idx1-ubyte", idx_bytes(8, {1}, "\x07"));
  folder.write("mnist/t10k-images-idx3-ubyte", idx_bytes(8, {1, 1, 2}, "\x01\x09"));
  const auto mnist = inspected(folder / "mnist");
  EXPECT_EQ(mnist["format"], "folder of IDX files");
  ASSERT_EQ(mnist["arrays"].size(), 2U);
  EXPECT_EQ(mnist["arrays"][0]["shape"], Json({1, 1, 2}));

  write_safetensors(folder / "weights", std::vector<NamedTensor>{{"w", torch::ones({2, 5})}});
  const auto weights = inspected(folder / "weights");
  EXPECT_EQ(weights["format"], "safetensors");
  EXPECT_EQ(weights["arrays"][0]["name"], "w");
  EXPECT_EQ(weights["arrays"][0]["shape"], Json({2, 5}));
  EXPECT_EQ(weights["facts"]["numbers"], 10);

  // JSON may have spaces before it.
  const std::string header = " {\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  const auto spaced =
      folder.write("spaced", std::string(1, static_cast<char>(header.size())) +
                                 std::string(7, '\0') + header + std::string(4, '\0'));
  EXPECT_EQ(inspected(spaced)["arrays"][0]["name"], "w");

  folder.write("many/image.npy", bytes);
  folder.write("many/width/1.npy", bytes);
  folder.write("many/width/2.npy", bytes);
  const auto many = inspected(folder / "many");
  EXPECT_EQ(many["format"], "folder of .npy arrays");
  EXPECT_EQ(many["arrays"][1]["name"], "width");
  EXPECT_EQ(many["arrays"][1]["shape"], Json({2, 2, 3}));
}

TEST_F(InspectProgram, ShowsImages) {
  write_small_cifar10(folder / "cifar", 4);
  const auto cifar = inspected(folder / "cifar");
  EXPECT_EQ(cifar["format"], "CIFAR-10, binary");
  EXPECT_EQ(cifar["arrays"][0]["shape"], Json({20, 3, 32, 32}));
  EXPECT_EQ(cifar["facts"]["training images by class"]["a"], 2);

  const std::string pixels = png_file(1, 2, "\x01\x02\x03\x04\x05\x06");
  folder.write("images/a/one.png", pixels);
  folder.write("images/b/two.png", pixels);
  const auto image = inspected(folder / "images/a/one.png");
  EXPECT_TRUE(says(image["format"].get<std::string>(), {"image"}));
  EXPECT_EQ(image["arrays"][0]["shape"], Json({1, 2, 3}));
  const auto images = inspected(folder / "images");
  EXPECT_EQ(images["format"], "folder of images");
  EXPECT_EQ(images["facts"]["images by class"], Json({{"a", 1}, {"b", 1}}));
  EXPECT_EQ(images["facts"]["widths"], Json({2, 2}));
}

TEST_F(InspectProgram, SaysWhatIsWrong) {
  for (const auto& [path, words] :
       {std::pair<std::string, std::string>(folder / "none", "none does not exist"),
        {folder.write("text", "hello"), "of no format that is read: IDX"},
        {folder.write("page", "<!DOCTYPE html><title>404</title>"), "it is an HTML page: the"},
        {folder.write("lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
         "it is a Git LFS pointer"},
        {folder.write("bad.npy", "\x93NUMPY\x09"), "as .npy"},
        {folder.write("bad.h5", "\x89HDF\r\n\x1a\n"), "as HDF5"},
        {folder.path().string(), folder.path().string()}}) {
    expect_refused(inspect(path), words);
  }
}

}  // namespace
}  // namespace kolo::testing
