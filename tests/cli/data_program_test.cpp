// kolo data, through the binary.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cli/program.h"
#include "kolo/base/file.h"
#include "kolo/data/box_files.h"
#include "kolo/data/cifar10.h"
#include "kolo/data/image_folder.h"
#include "kolo/data/mnist.h"
#include "support/http_server.h"
#include "support/idx_files.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

class DataProgram : public ::testing::Test {
 protected:
  DataProgram() { write_small_mnist(folder / "mnist", 100, 50); }

  ProcessResult data(const std::vector<std::string>& arguments,
                     std::map<std::string, std::string> environment = {}) {
    environment.emplace("no_proxy", "*");
    return run_kolo(joined({"data"}, arguments), std::move(environment));
  }

  ProcessResult make(const std::string& kind, const std::vector<std::string>& more = {}) {
    return data(joined({kind, "--from", "fashion-mnist", "--source", folder / "mnist", "-o",
                        folder / "made", "--per-class", "10"},
                       more));
  }

  TemporaryFolder folder;
};

TEST_F(DataProgram, MakesACifar10) {
  EXPECT_TRUE(succeeds(make("cifar10"), {"made: 100 training and 50 validation images", " s\n"}));
  EXPECT_EQ(Cifar10Dataset(folder / "made", Split::train).size(), 100);
  EXPECT_EQ(Cifar10Dataset(folder / "made", Split::validation).size(), 50);
  const auto before = read_text_file(folder / "made/data_batch_1.bin");
  expect_refused(make("cifar10", {"--seed", "7"}), "not empty");
  EXPECT_EQ(read_text_file(folder / "made/data_batch_1.bin"), before);
  EXPECT_EQ(make("cifar10", {"--seed", "7", "--force"}).exit_code, 0);
  EXPECT_NE(read_text_file(folder / "made/data_batch_1.bin"), before);
}

TEST_F(DataProgram, MakesFoldersOfImages) {
  EXPECT_TRUE(
      succeeds(make("images"), {"made: 100 JPEG files in train/, 20 in valid/, 10 classes"}));
  const ImageFolderDataset training(folder / "made/train", {.height = 32, .width = 32});
  EXPECT_EQ(training.size(), 100);
  EXPECT_EQ(training.class_names().front(), "0_t_shirt_top");
  std::vector<float> input(3 * 32 * 32);
  std::int64_t label = -1;
  for (std::int64_t i = 0; i < training.size(); ++i) {
    training.read(i, 0, {input, {&label, 1}, {}});
    EXPECT_EQ(label, i / 10);
  }
}

TEST_F(DataProgram, SaysWhatIsWrong) {
  expect_refused(data({"cifar10", "--from", "nowhere", "-o", folder / "a"}), "nowhere");
  expect_refused(data({"cifar10", "--from", "fashion-mnist"}), "--output");
  expect_refused(data({"cifar10", "--from", "fashion-mnist", "--source", folder / "none", "-o",
                       folder / "made"}),
                 "does not exist");
  expect_refused(data({"images", "--from", "cifar10", "-o", folder / "a"}), "fashion-mnist");
  expect_refused(data({"fetch", "imagenet", "-o", folder / "a"}), "mnist, fashion-mnist, cifar10");
  expect_refused(data({"fetch", "mnist", "-o", folder / "a", "--url", "ftp://x"}), "no address");
  EXPECT_FALSE(fs::exists(folder / "made"));
}

TEST_F(DataProgram, FetchesFromTheMirrorOfTheEnvironment) {
  const HttpServer server;
  const auto result = data({"fetch", "mnist", "-o", folder / "mnist2"},
                           {{"KOLO_DATA_URL", server.url() + "/mirror"}});
  EXPECT_TRUE(ends_with(result, 1, {"/mirror/mnist/train-images-idx3-ubyte.gz", "404"}));
  EXPECT_EQ(server.requests().size(), 1U);
}

// The original of a file of Debian's package, which is the same but for gzip's header: without the
// name and the time.
std::string original_file(const std::string& name, std::uint32_t time) {
  const auto packed = read_text_file(fs::path(fashion_mnist_folder) / (name + ".gz"));
  constexpr std::size_t header = 10;
  std::string original = "\x1f\x8b\x08\x08";  // with a name
  for (int byte = 0; byte < 4; ++byte) original.push_back(static_cast<char>(time >> (8 * byte)));
  original.append("\x00\x03", 2).append(name).push_back('\0');
  return original + packed.substr(header);
}

TEST_F(DataProgram, FetchesFashionMnist) {
  HttpServer server;
  for (const auto& [name, time] : {std::pair("train-images-idx3-ubyte", 1504176606U),
                                   std::pair("train-labels-idx1-ubyte", 1504176606U),
                                   std::pair("t10k-images-idx3-ubyte", 1504176627U),
                                   std::pair("t10k-labels-idx1-ubyte", 1504176627U)}) {
    server.serve(fmt::format("/{}.gz", name),
                 {.content = original_file(name, time), .cuts = 1, .cut_bytes = 3000});
  }
  const std::vector<std::string> arguments = {"fetch", "fashion-mnist", "-o", folder / "fetched",
                                              "--url", server.url()};
  EXPECT_TRUE(succeeds(data(arguments), {"29.4 MiB fetched, sums right"}));
  EXPECT_EQ(server.requests().size(), 8U) << "each went on after a cut";
  EXPECT_TRUE(succeeds(data(arguments), {"fashion-mnist is complete in"}));
  EXPECT_EQ(server.requests().size(), 8U);
  EXPECT_EQ(MnistDataset(folder / "fetched", Split::validation).size(), 10000);
}

TEST_F(DataProgram, KeepsNoDownloadWithAWrongSum) {
  HttpServer server;
  // As long as the true one.
  server.serve("/train-images-idx3-ubyte.gz", {.content = std::string(9912422, 'x')});
  const auto result = data({"fetch", "mnist", "-o", folder / "new", "--url", server.url()});
  EXPECT_TRUE(ends_with(result, 1, {"MD5", "f68b3c2dcbeaaa9fbdd348bbdeb94873"}));
  EXPECT_TRUE(says(result.errors, {"apt install dataset-fashion-mnist"}))
      << "what to do without a network";
  EXPECT_TRUE(fs::is_empty(folder / "new"));
}

class ConvertProgram : public ::testing::Test {
 protected:
  ConvertProgram() {
    box.size = 6;
    for (int i = 0; i < 4 * 216; ++i) box.nbody.push_back(static_cast<float>(i));
    for (int i = 0; i < 5 * 216; ++i) box.hydro.push_back(static_cast<float>(-i));
    box.parameters = {{"seed", 5}};
    write_box_hdf5(box, folder / "box.h5");
  }
  ProcessResult convert(const std::vector<std::string>& arguments) {
    return run_kolo(joined({"data", "convert"}, arguments));
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
  EXPECT_TRUE(succeeds(convert({folder / "box.h5", "-o", folder / "pair"}),
                       {"pair_data.npy and ", "pair_label.npy", "6^3 cells, 7.59 KiB"}));
  expect_holds_the_box(folder / "pair");
  EXPECT_EQ(convert({folder / "pair_label.npy", "-o", folder / "back.h5"}).exit_code, 0);
  expect_holds_the_box(folder / "back.h5");
  EXPECT_EQ(convert({folder / "box.h5", "-o", folder / "new/folder/again_data.npy"}).exit_code, 0);
  expect_holds_the_box(folder / "new/folder/again");
}

TEST_F(ConvertProgram, SaysWhatIsWrong) {
  expect_refused(convert({folder / "none.h5", "-o", folder / "a"}), "neither");
  expect_refused(convert({folder / "box.h5"}), "--output");
  expect_refused(convert({folder / "box.h5", "-o", folder / "a.csv"}), "HDF5, or a pair of .npy");
  expect_refused(convert({folder / "box.h5", "-o", folder / "box.h5", "--force"}), "what is read");
  expect_refused(convert({folder / "box.h5", "-o", folder / "box.h5/a"}),
                 "is there, and no folder");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing was written";
}

}  // namespace
}  // namespace kolo::testing
