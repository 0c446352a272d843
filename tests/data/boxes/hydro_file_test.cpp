#include "kolo/data/box_files.h"

#include <random>
#include <thread>

#include "data/boxes/boxes.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// Cut at random along one axis after the other.
std::vector<Region> random_regions(std::mt19937& random, std::int64_t size) {
  std::vector<Region> regions{{{0, 0, 0}, {size, size, size}}};
  for (int cut = 0; cut < 12; ++cut) {
    const auto axis = random() % 3;
    auto& region = regions[random() % regions.size()];
    if (region.extent[axis] < 2) continue;
    auto other = region;
    region.extent[axis] = 1 + static_cast<std::int64_t>(random()) % (other.extent[axis] - 1);
    other.start[axis] += region.extent[axis];
    other.extent[axis] -= region.extent[axis];
    regions.push_back(other);
  }
  return regions;
}

std::vector<float> gas_of(const BoxFile& box, const Region& region) {
  std::vector<float> scratch, values(static_cast<std::size_t>(hydro_channels * region.cells()));
  box.read_region(BoxField::hydro, region, scratch, values);
  return values;
}

class HydroFiles : public ::testing::Test {
 protected:
  // All of them at once, each by a writer of its own.
  void fill(const HydroTarget& place, const std::vector<Region>& regions) const {
    const BoxFile source(folder_ / "source.h5");
    std::vector<std::jthread> threads;
    for (const auto& region : regions) {
      threads.emplace_back([&] {
        HydroWriter writer(place);
        writer.write(region, gas_of(source, region));
        writer.flush();
      });
    }
  }
  [[nodiscard]] fs::path made() const { return folder_ / "made"; }

  TemporaryFolder folder_;
  SimulationBox box_ = numbered_box(6);
};

TEST_F(HydroFiles, HoldWhatManyHaveWritten) {
  write_box_hdf5(box_, folder_ / "source.h5");
  fs::create_directory(made());
  std::mt19937 random(4);
  for (int trial = 0; trial < 20; ++trial) {
    for (const std::string name : {"gas.h5", "gas_label.npy"}) {
      HydroFile file(made() / name, box_.size);
      fill(file.place(), random_regions(random, box_.size));
      EXPECT_EQ(fs::exists(made() / name), trial > 0) << "before it is whole";
      file.commit();
      const BoxFile read(made() / name, BoxFields::any);
      EXPECT_EQ(testing::read_all(read, BoxField::hydro), box_.hydro);
      EXPECT_FALSE(read.has(BoxField::nbody));
      EXPECT_TRUE(read.layout(BoxField::hydro).is_mapped);
    }
  }
  EXPECT_THAT(names_in(made()), ElementsAre("gas.h5", "gas_label.npy"));
}

TEST_F(HydroFiles, VanishUnlessTheyAreWhole) {
  fs::create_directory(made());
  for (const auto* const name : {"gas.h5", "gas.npy"}) {
    {
      const HydroFile file(made() / name, 4);
      EXPECT_EQ(names_in(made()).size(), 1U);
    }
    EXPECT_THAT(names_in(made()), IsEmpty());
  }
  EXPECT_TRUE(says(message_of<Error>([&] { const HydroFile file(folder_ / "none" / "gas.h5", 4); }),
                   {"cannot"}));
  EXPECT_TRUE(says(message_of<Error>([&] { const HydroFile file(made() / "gas.npy", 1 << 18); }),
                   {"left"}));
  EXPECT_THAT(names_in(made()), IsEmpty());
}

TEST_F(HydroFiles, RefuseRegionsThatAreNotTheirs) {
  const HydroFile file(folder_ / "gas.npy", 4, {});
  HydroWriter writer(file.place());
  const std::vector<float> values(5 * 8);
  writer.write({{2, 2, 2}, {2, 2, 2}}, values);
  EXPECT_THROW(writer.write({{3, 2, 2}, {2, 2, 2}}, values), Error);
  EXPECT_THROW(writer.write({{-1, 2, 2}, {2, 2, 2}}, values), Error);
  EXPECT_THROW(writer.write({{2, 2, 2}, {2, 2, 1}}, values), Error);
}

// Dark matter alone is all that a prediction needs.
TEST_F(HydroFiles, AreMadeOfBoxesWithoutGas) {
  const auto edge = static_cast<hsize_t>(box_.size);
  testing::write_hdf5(folder_ / "dark.h5", [&](hid_t file) {
    testing::write_hdf5_field(
        file, {.name = "Nbody", .shape = {4, edge, edge, edge}, .values = &box_.nbody});
  });
  write_box_npy(box_, folder_ / "pair");
  fs::rename(folder_ / "pair_data.npy", folder_ / "dark.npy");
  for (const auto* const name : {"dark.h5", "dark.npy"}) {
    const BoxFile read(folder_ / name, BoxFields::nbody);
    EXPECT_TRUE(read.has(BoxField::nbody));
    EXPECT_FALSE(read.has(BoxField::hydro));
    EXPECT_THROW((void)read.layout(BoxField::hydro), Error);
    EXPECT_EQ(read.size(), 6);
  }
  EXPECT_TRUE(BoxFile(folder_ / "dark.h5", BoxFields::any).has(BoxField::nbody));
  EXPECT_TRUE(BoxFile(folder_ / "pair_label.npy", BoxFields::any).has(BoxField::hydro));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { const BoxFile file(folder_ / "dark.h5"); }), {"Hydro"}));
  EXPECT_TRUE(says(message_of<InputError>(
                       [&] { const BoxFile file(folder_ / "pair_label.npy", BoxFields::nbody); }),
                   {"(N, N, N, 4)"}));
}

}  // namespace
}  // namespace kolo::testing
