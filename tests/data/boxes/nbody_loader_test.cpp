// Crops of a box through the loader: many threads, several ranks.
#include <gtest/gtest.h>

#include "data/boxes/boxes.h"
#include "kolo/data/box_files.h"
#include "kolo/data/loader.h"
#include "kolo/data/nbody.h"
#include "support/temporary_folder.h"

namespace kolo {
namespace {

using testing::numbered_box;
using testing::TemporaryFolder;

// FNV-1a over the bytes of a batch.
std::uint64_t checksum(const Batch& batch) {
  std::uint64_t sum = 14695981039346656037U;
  for (const auto& tensor : {batch.input, batch.target}) {
    const auto* const bytes = static_cast<const unsigned char*>(tensor.data_ptr());
    for (std::size_t i = 0; i < tensor.nbytes(); ++i) sum = (sum ^ bytes[i]) * 1099511628211U;
  }
  return sum;
}

std::vector<std::uint64_t> checksums(const std::shared_ptr<const Dataset>& dataset, int workers) {
  Loader loader(dataset, DistributedSampler(dataset->size(), 0, 1, {.seed = 2}),
                {.batch_size = 3, .workers = workers, .prefetch = 8});
  std::vector<std::uint64_t> sums;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    loader.start_epoch(epoch);
    while (const auto batch = loader.next()) sums.push_back(checksum(*batch));
  }
  return sums;
}

TEST(NbodyLoader, EightThreadsReadWhatOneReads) {
  const TemporaryFolder folder;
  const auto box = numbered_box(20);
  write_box_hdf5(box, folder / "contiguous.h5");
  write_box_hdf5(box, folder / "chunked.h5", 7);
  testing::write_box_like(folder / "deflate.h5", box, {.chunk = {2, 8, 8, 8}, .deflate = 1});
  write_box_npy(box, folder / "pair");
  std::vector<std::uint64_t> first;
  for (const auto& [name, mode] :
       {std::pair("contiguous.h5", BoxMode::lowmem), std::pair("chunked.h5", BoxMode::lowmem),
        std::pair("deflate.h5", BoxMode::lowmem), std::pair("pair_data.npy", BoxMode::lowmem),
        std::pair("contiguous.h5", BoxMode::inmem)}) {
    SCOPED_TRACE(name);
    const auto dataset = std::make_shared<NbodyDataset>(
        NbodyOptions{.file = folder / name, .mode = mode, .crop = 12, .samples = 60});
    const auto one = checksums(dataset, 0);
    EXPECT_EQ(one.size(), 40U);
    EXPECT_EQ(checksums(dataset, 8), one);
    // And all files hold the same box.
    if (first.empty()) first = one;
    EXPECT_EQ(one, first);
  }
}

}  // namespace
}  // namespace kolo
