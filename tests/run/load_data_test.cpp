// Data in memory that the ranks of a node keep once.
#include <algorithm>

#include "kolo/comm/threads.h"
#include "kolo/data/nbody.h"
#include "kolo/run/run.h"
#include "run/field_runs.h"
#include "run/random_box.h"
#include "run/work_part.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class SharedData : public FieldRuns {
 protected:
  std::string write_box(const std::string& name, std::int64_t seed) {
    write_box_hdf5(random_box(40, seed), folder_ / name);
    return folder_ / name;
  }
  std::vector<std::string> settings(const std::string& mode) {
    return {"data.mode=" + mode, "data.train_path=" + write_box("train.h5", 1),
            "data.valid_path=" + write_box("valid.h5", 3), "training.n_epochs=1"};
  }
};

TEST_F(SharedData, TrainsToTheBitsOfCropsFromTheFile) {
  EXPECT_FALSE(says(train("file", 2, settings("lowmem")), {"of data in memory"}));
  EXPECT_TRUE(says(train("memory", 2, settings("inmem")),
                   {"of data in memory, once for the 2 ranks of a node"}));
  EXPECT_EQ(losses("memory"), losses("file"));
  EXPECT_FALSE(says(train("alone", 1, settings("inmem")), {"of data in memory"}));
  expect_same_losses("alone", "file");
}

TEST_F(SharedData, IsOneMemoryThatEachRankReadsAPartOf) {
  std::vector<const std::byte*> places(3);
  std::vector<std::vector<int>> reads(3);
  run_as_threads(3, [&](const Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    std::shared_ptr<std::byte> kept;
    Datasets datasets;
    for (const std::size_t bytes : {100, 1000}) {
      datasets.loads.push_back({bytes, [&, bytes](const auto& memory, int part, int parts) {
                                  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64,
                                            0U);
                                  kept = memory;
                                  places[rank] = memory.get();
                                  reads[rank] = {part, parts};
                                  memory.get()[part] = static_cast<std::byte>(bytes % 100 + part);
                                }});
    }
    load_data(communicator, datasets);
    communicator.barrier();
    for (int part = 0; part < 3; ++part) EXPECT_EQ(kept.get()[part], static_cast<std::byte>(part));
    EXPECT_TRUE(datasets.loads.empty());
    EXPECT_TRUE(datasets.warnings.empty());
    communicator.barrier();
  });
  EXPECT_THAT(reads, ElementsAre(ElementsAre(0, 3), ElementsAre(1, 3), ElementsAre(2, 3)));
  EXPECT_EQ(std::ranges::count(places, places[0]), 3);
}

}  // namespace
}  // namespace kolo::testing
