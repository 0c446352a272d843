#include <gmock/gmock.h>

#include "cli/program.h"
#include "data/gzip_bytes.h"
#include "support/idx_files.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// Damage that only the reading itself shows ends all ranks alike, before anything is written.
TEST(DamagedImages, EndAllRanksWithOneMessage) {
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
  const auto result = train("run");
  ASSERT_EQ(result.exit_code, 0) << result.errors;

  auto packed = gzip_bytes(idx_bytes(8, {40, 28, 28}, std::string(40 * 28 * 28, 'x')));
  packed[packed.size() - 8] ^= 1;  // of its checksum
  write_file(folder / "mnist" / "train-images-idx3-ubyte", packed);
  const auto damaged = train("damaged");
  EXPECT_EQ(damaged.exit_code, 2) << damaged.output;
  EXPECT_TRUE(says(damaged.errors, {"train-images-idx3-ubyte", "corrupt gzip data"}));
  EXPECT_EQ(damaged.errors.find("corrupt"), damaged.errors.rfind("corrupt")) << damaged.errors;
  EXPECT_FALSE(std::filesystem::exists(folder / "damaged"));
  EXPECT_EQ(train("run").exit_code, 2);
  EXPECT_TRUE(std::filesystem::exists(folder / "run" / "history.json")) << "the earlier run stays";
  EXPECT_FALSE(std::filesystem::exists(folder / "run.1"));
}

}  // namespace
}  // namespace kolo::testing
