// Data that the ranks of a node keep in memory once, after a bad end of all of them.
#include <algorithm>
#include <csignal>

#include <gmock/gmock.h>

#include "cli/background.h"
#include "data/gzip_bytes.h"
#include "kolo/data/dataset.h"
#include "run/random_box.h"
#include "support/idx_files.h"
#include "support/read_all.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

constexpr std::int64_t box_edge = 48;  // larger than all else that is shared
constexpr std::size_t box_bytes =
    sizeof(float) * (nbody_channels + hydro_channels) * box_edge * box_edge * box_edge;

// Sizes of the pieces of memory of kolo's that processes with this argument share with others; they
// have no name in the file system, so nothing is left of them.
std::vector<std::size_t> shared_pieces(const std::string& argument) {
  std::vector<std::size_t> pieces;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    if (read_all(process.path() / "cmdline").find(argument) == std::string::npos) continue;
    for (const auto& line : lines_of(read_all(process.path() / "maps"))) {
      if (line.find("/memfd:kolo (deleted)") == std::string::npos) continue;
      std::size_t after = 0;
      const auto begin = std::stoull(line, &after, 16);
      const auto end = std::stoull(line.substr(after + 1), nullptr, 16);
      pieces.push_back(end - begin);
    }
  }
  return pieces;
}

TEST(NodeSharedData, KilledRanksLeaveNothingInSharedMemory) {
  const TemporaryFolder folder;
  write_box_hdf5(random_box(box_edge, 1), folder / "box.h5");
  const auto path = (folder / "box.h5").string(), run = (folder / "run").string();
  const auto config = folder.write(
      "box.yaml",
      "data: {name: nbody, mode: inmem, crop: 16, n_train: 4, n_valid: 2, train_path: " + path +
          ", valid_path: " + path +
          "}\nmodel: {name: unet3d, levels: 2, channels: 2}\noptimizer: {name: sgd}\n"
          "training: {loss: l1, batch_size: 1, n_epochs: 1000000}\n");
  std::vector<std::size_t> pieces;
  const auto result = run_kolo_and({"train", config, "-o", run, "-n", "2"}, [&](pid_t) {
    EXPECT_TRUE(wait_for_text(folder / "run" / "out.log", "once for the 2 ranks of a node"));
    EXPECT_TRUE(wait_for_text(folder / "run" / "out.log", "epoch 2/"));
    pieces = shared_pieces(run);
    signal_processes_with_argument(run, SIGKILL);
  });
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_EQ(std::ranges::count_if(pieces, [](auto bytes) { return bytes >= 2 * box_bytes; }), 2)
      << "both ranks have the data, in one piece each";
}

// Damage that only the reading itself shows ends all ranks alike, before anything is written.
TEST(NodeSharedData, ImagesAreThereOnceAndTheirDamageIsSaidOnce) {
  const TemporaryFolder folder;
  write_small_mnist(folder / "mnist", 40, 20);
  const auto config =
      folder.write("mnist.yaml", "data: {name: mnist, path: " + (folder / "mnist").string() +
                                     "}\nmodel: {name: mnist_net}\n"
                                     "optimizer: {name: sgd, lr: 0.1}\n"
                                     "training: {batch_size: 8, n_epochs: 1}\n");
  const auto train = [&](const std::string& run) {
    return run_kolo({"train", config, "-o", folder / run, "-n", "2"});
  };
  ASSERT_TRUE(succeeds(train("run"), {"of data in memory, once for the 2 ranks of a node"}));

  auto packed = gzip_bytes(idx_bytes(8, {40, 28, 28}, std::string(40 * 28 * 28, 'x')));
  packed[packed.size() - 8] ^= 1;  // of its checksum
  write_file(folder / "mnist" / "train-images-idx3-ubyte", packed);
  const auto damaged = train("damaged");
  EXPECT_TRUE(is_refused(damaged, {"train-images-idx3-ubyte", "corrupt gzip data"}));
  EXPECT_EQ(damaged.errors.find("corrupt"), damaged.errors.rfind("corrupt")) << damaged.errors;
  EXPECT_FALSE(std::filesystem::exists(folder / "damaged"));
  EXPECT_EQ(train("run").exit_code, 2);
  EXPECT_TRUE(std::filesystem::exists(folder / "run" / "history.json")) << "the earlier run stays";
  EXPECT_FALSE(std::filesystem::exists(folder / "run.1"));
}

}  // namespace
}  // namespace kolo::testing
