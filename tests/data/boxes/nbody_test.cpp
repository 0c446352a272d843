#include "kolo/data/nbody.h"

#include <numeric>
#include <set>

#include <gmock/gmock.h>

#include "data/boxes/boxes.h"
#include "data/boxes/turned_numbers.h"
#include "data/read_sample.h"
#include "kolo/base/error.h"
#include "kolo/data/loader.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

void expect_field(const std::vector<float>& found, const std::vector<float>& field,
                  std::int64_t box_size, const NbodyCrop& crop, std::int64_t size,
                  bool turns_velocity) {
  const auto plane = box_size * box_size;
  const auto first = crop.start[0] * plane + crop.start[1] * box_size + crop.start[2];
  const FieldView view{field.data() + first, {box_size * plane, plane, box_size, 1}};
  const auto channels = std::ssize(field) / (box_size * plane);
  ASSERT_EQ(std::ssize(found), channels * size * size * size);
  EXPECT_EQ(testing::wrong_numbers(found.data(), view, channels, {size, size, size},
                                   {crop.symmetry, turns_velocity}),
            0);
}

// Every way a box can lie in files.
struct Storage {
  std::string name;
  std::function<std::string(const SimulationBox&, const TemporaryFolder&)> write;
  BoxMode mode = BoxMode::lowmem;
};
void PrintTo(const Storage& storage, std::ostream* stream) {
  *stream << storage.name;
}

Storage in_hdf5(std::string name, const testing::Hdf5Field& like, hsize_t user_block = 0,
                BoxMode mode = BoxMode::lowmem) {
  const auto write = [=](const auto& box, const auto& folder) {
    testing::write_box_like(folder / "box.h5", box, like, user_block);
    return (folder / "box.h5").string();
  };
  return {std::move(name), write, mode};
}

// A pair of .npy files of other numbers, or with a header of an odd size, after
// which numbers don't lie at multiples of four.
template <typename Number>
std::string write_npy_pair(const SimulationBox& box, const TemporaryFolder& folder,
                           const std::string& type, bool is_odd = false) {
  const auto size = box.size;
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
    const auto& values = field == BoxField::nbody ? box.nbody : box.hydro;
    const auto channels = channels_of(field), cells = size * size * size;
    std::vector<Number> numbers(values.size());
    for (std::int64_t from = 0; from < channels * cells; ++from) {
      const auto channel = from / cells, cell = from % cells;
      numbers[static_cast<std::size_t>(cell * channels + channel)] =
          static_cast<Number>(values[static_cast<std::size_t>(from)]);
    }
    auto bytes = testing::npy_array(type, {size, size, size, channels}, numbers);
    if (is_odd) {
      ++bytes[8];  // the header's length
      bytes.insert(127, " ");
    }
    folder.write(field == BoxField::nbody ? "box_data.npy" : "box_label.npy", bytes);
  }
  return folder / "box";
}

std::vector<Storage> storages() {
  const testing::Hdf5Field packed{.chunk = {1, 6, 6, 6}, .deflate = 1};
  return {
      {"contiguous",
       [](const auto& box, const auto& folder) {
         write_box_hdf5(box, folder / "box.h5");
         return (folder / "box.h5").string();
       }},
      in_hdf5("chunked", {.chunk = {3, 4, 3, 7}}),
      in_hdf5("deflate", packed),
      in_hdf5("float64", {.type = H5T_IEEE_F64LE}),
      in_hdf5("bigEndian", {.type = H5T_IEEE_F32BE}),
      in_hdf5("userBlock", {}, 1024),
      {"npy",
       [](const auto& box, const auto& folder) {
         write_box_npy(box, folder / "box");
         return (folder / "box_label.npy").string();
       }},
      {"npyFloat64", [](const auto& box,
                        const auto& folder) { return write_npy_pair<double>(box, folder, "<f8"); }},
      {"npyUnaligned",
       [](const auto& box, const auto& folder) {
         return write_npy_pair<float>(box, folder, "<f4", true);
       }},
      in_hdf5("inmem", packed, 0, BoxMode::inmem)};
}

class NbodyStorage : public ::testing::TestWithParam<Storage> {};
INSTANTIATE_TEST_SUITE_P(All, NbodyStorage, ::testing::ValuesIn(storages()),
                         [](const auto& test) { return test.param.name; });

TEST_P(NbodyStorage, CropsAreTheBoxsOwnNumbers) {
  const TemporaryFolder folder;
  const auto box = numbered_box(13);
  const auto file = GetParam().write(box, folder);
  for (const auto rotations :
       {Rotations::none, Rotations::tutorial, Rotations::vector, Rotations::proper}) {
    for (const std::int64_t size : {1, 6, 13}) {
      const NbodyDataset dataset({.file = file,
                                  .mode = GetParam().mode,
                                  .crop = size,
                                  .samples = 25,
                                  .rotations = rotations});
      EXPECT_EQ(dataset.box_size(), 13);
      const bool turns = rotations == Rotations::vector || rotations == Rotations::proper;
      for (std::int64_t i = 0; i < 25; ++i) {
        const auto crop = dataset.crop(i, 3);
        const auto sample = read_sample(dataset, i, 3);
        expect_field(sample.input, box.nbody, 13, crop, size, turns);
        expect_field(sample.target, box.hydro, 13, crop, size, turns);
      }
    }
  }
}

TEST_P(NbodyStorage, EightThreadsReadWhatOneReads) {
  const TemporaryFolder folder;
  const auto dataset = std::make_shared<NbodyDataset>(
      NbodyOptions{.file = GetParam().write(numbered_box(13), folder),
                   .mode = GetParam().mode,
                   .crop = 6,
                   .samples = 60});
  Loader loader(dataset, {60, 0, 1, {.seed = 2}}, {.batch_size = 3, .workers = 8, .prefetch = 8});
  loader.start_epoch(1);
  while (const auto batch = loader.next()) {
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto sample = read_sample(*dataset, batch->indices.at(static_cast<std::size_t>(i)), 1);
      EXPECT_TRUE(torch::equal(batch->input[i].flatten(), torch::tensor(sample.input)));
      EXPECT_TRUE(torch::equal(batch->target[i].flatten(), torch::tensor(sample.target)));
    }
  }
}

class Nbody : public ::testing::Test {
 protected:
  Nbody() { write_box_hdf5(box, file); }
  [[nodiscard]] NbodyDataset dataset(NbodyOptions options) const {
    options.file = file;
    return NbodyDataset(std::move(options));
  }

  TemporaryFolder folder;
  SimulationBox box = numbered_box(8);
  std::string file = folder / "box.h5";
};

TEST_F(Nbody, DrawsEveryStartAndEveryRotation) {
  for (const auto& [rotations, count] :
       {std::pair(Rotations::none, 1), std::pair(Rotations::tutorial, 24),
        std::pair(Rotations::vector, 48), std::pair(Rotations::proper, 24)}) {
    const auto crops = dataset({.crop = 5, .samples = 2000, .rotations = rotations});
    std::set<std::array<std::int64_t, 3>> starts;
    std::set<std::int64_t> numbers;
    for (std::int64_t i = 0; i < crops.size(); ++i) {
      const auto crop = crops.crop(i, 0);
      starts.insert(crop.start);
      numbers.insert(crop.rotation);
      if (rotations == Rotations::proper) {
        EXPECT_EQ(crop.symmetry.determinant(), 1);
      }
    }
    EXPECT_EQ(starts.size(), 64U);
    EXPECT_EQ(*starts.begin(), (std::array<std::int64_t, 3>{0, 0, 0}));
    EXPECT_EQ(*starts.rbegin(), (std::array<std::int64_t, 3>{3, 3, 3}));
    EXPECT_EQ(numbers.size(), static_cast<std::size_t>(count));
  }
}

TEST_F(Nbody, DependsOnSeedEpochAndIndexAlone) {
  const auto crops = dataset({.crop = 4, .samples = 50, .seed = 5});
  const auto again = dataset({.crop = 4, .samples = 70, .seed = 5});
  const auto other = dataset({.crop = 4, .samples = 50, .seed = 6});
  int same_epoch = 0, same_seed = 0;
  for (std::int64_t i = 49; i >= 0; --i) {
    const auto sample = read_sample(crops, i, 2);
    EXPECT_EQ(sample, read_sample(again, i, 2));
    same_epoch += sample == read_sample(crops, i, 3);
    same_seed += sample == read_sample(other, i, 2);
  }
  EXPECT_LE(same_epoch, 1);
  EXPECT_LE(same_seed, 1);
  // Crops of a validation stay the same.
  const auto fixed = dataset({.crop = 4, .samples = 20, .varies_with_epoch = false});
  for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(read_sample(fixed, i), read_sample(fixed, i, 7));
}

// Differences of neighbours, the box being periodic; exact, since all numbers are whole.
std::vector<float> divergence(std::span<const float> velocity, std::int64_t size) {
  std::vector<float> sum;
  const auto at = [&](std::int64_t component, std::array<std::int64_t, 3> cell, std::size_t axis,
                      std::int64_t step) {
    cell[axis] = (cell[axis] + step + size) % size;
    return velocity[static_cast<std::size_t>(
        ((component * size + cell[0]) * size + cell[1]) * size + cell[2])];
  };
  for (std::int64_t i = 0; i < size; ++i)
    for (std::int64_t j = 0; j < size; ++j)
      for (std::int64_t k = 0; k < size; ++k) {
        float value = 0;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          const auto component = static_cast<std::int64_t>(axis);
          value += at(component, {i, j, k}, axis, 1) - at(component, {i, j, k}, axis, -1);
        }
        sum.push_back(value);
      }
  return sum;
}

TEST_F(Nbody, TurningKeepsTheDivergence) {
  const auto whole = dataset({.crop = 8, .samples = 400});
  const std::size_t cells = 512;
  const auto before = divergence(std::span(box.hydro).subspan(cells, 3 * cells), 8);
  std::set<std::int64_t> seen;
  for (std::int64_t index = 0; index < whole.size(); ++index) {
    const auto crop = whole.crop(index, 0);
    if (!seen.insert(crop.rotation).second) continue;
    const auto sample = read_sample(whole, index);
    const auto after = divergence(std::span(sample.target).subspan(cells, 3 * cells), 8);
    std::vector<float> expected;
    for (std::int64_t i = 0; i < 8; ++i)
      for (std::int64_t j = 0; j < 8; ++j)
        for (std::int64_t k = 0; k < 8; ++k) {
          const auto from = testing::source_of(crop.symmetry, {i, j, k}, 8);
          expected.push_back(
              before[static_cast<std::size_t>((from[0] * 8 + from[1]) * 8 + from[2])]);
        }
    EXPECT_EQ(after, expected) << "rotation " << crop.rotation;
  }
  EXPECT_EQ(seen.size(), 48U);
}

TEST_F(Nbody, ABoxInMemoryMayBeReadLaterAndInParts) {
  testing::write_box_like(file, numbered_box(23), {.chunk = {1, 5, 5, 5}});
  const NbodyOptions options{.mode = BoxMode::inmem, .crop = 9, .samples = 20};
  const auto whole = dataset(options);
  EXPECT_FALSE(whole.load().has_value());
  for (const int parts : {1, 2, 3, 7}) {
    auto later = options;
    later.loads_later = true;
    const auto crops = dataset(later);
    ASSERT_TRUE(crops.load().has_value());
    EXPECT_EQ(crops.load()->bytes, 9U * 23 * 23 * 23 * sizeof(float));
    EXPECT_TRUE(
        says(message_of<Error>([&] { (void)read_sample(crops, 0); }), {"before it has been"}));
    (void)load_in_parts(*crops.load(), parts);
    for (std::int64_t i = 0; i < 20; ++i)
      EXPECT_EQ(read_sample(crops, i), read_sample(whole, i)) << parts;
  }
}

TEST_F(Nbody, SyntheticBoxesAreStandardNormal) {
  const NbodyDataset crops(
      {.mode = BoxMode::synthetic, .box_size = 40, .crop = 32, .samples = 10, .seed = 3});
  EXPECT_EQ(crops.box_size(), 40);
  const auto sample = read_sample(crops, 4);
  for (const auto& values : {sample.input, sample.target}) {
    const double count = static_cast<double>(values.size());
    EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.) / count, 0, .02);
    EXPECT_NEAR(std::inner_product(values.begin(), values.end(), values.begin(), 0.) / count, 1,
                .02);
  }
  EXPECT_NE(sample, read_sample(crops, 5));
}

TEST_F(Nbody, WarnsOfWhatIsSlow) {
  testing::write_box_like(file, numbered_box(24), {.chunk = {1, 24, 24, 24}, .deflate = 1});
  const auto small = dataset({.crop = 4}).warnings();
  ASSERT_EQ(small.size(), 4U);
  EXPECT_TRUE(says(small[0], {"Nbody", "packed (deflate)", "kolo data convert"}));
  EXPECT_TRUE(says(small[2], {"(1, 24, 24, 24)", "crops of 4^3", "about 216 times"}));
  EXPECT_EQ(dataset({.crop = 16}).warnings().size(), 2U);
  EXPECT_TRUE(dataset({.mode = BoxMode::inmem, .crop = 4}).warnings().empty());
  testing::write_box_like(file, box, {.chunk = {1, 8, 8, 8}});
  const auto chunked = dataset({.crop = 1}).warnings();
  ASSERT_EQ(chunked.size(), 2U);
  EXPECT_TRUE(says(chunked[1], {"Hydro", "is in chunks, so one thread at a time"}));
  testing::write_box_like(file, box, {.type = H5T_IEEE_F64LE});
  EXPECT_TRUE(says(dataset({.crop = 4}).warnings().front(), {"float64 and converted"}));
}

TEST_F(Nbody, RefusesOptionsOutOfRange) {
  const auto refusal = [&](NbodyOptions options) {
    return message_of<InputError>([&] { (void)dataset(std::move(options)); });
  };
  EXPECT_TRUE(says(refusal({.crop = 9}), {"crops of 9^3", "8^3"}));
  EXPECT_TRUE(says(refusal({.crop = 0}), {"expected an edge of 1"}));
  EXPECT_TRUE(says(refusal({.crop = 4, .samples = 0}), {"0 crops per epoch"}));
  EXPECT_TRUE(says(refusal({.mode = BoxMode::synthetic, .box_size = 0, .crop = 1}),
                   {"synthetic box of 0^3"}));
  EXPECT_TRUE(says(refusal({.mode = BoxMode::synthetic, .box_size = 4, .crop = 5}),
                   {"a synthetic box of 4^3"}));
  EXPECT_TRUE(says(refusal({.mode = BoxMode::synthetic, .box_size = 1 << 17, .crop = 5}),
                   {"bytes and the machine has"}));
  EXPECT_TRUE(says(message_of<InputError>([] { NbodyDataset({.crop = 4}); }), {"needs a file"}));
}

}  // namespace
}  // namespace kolo::testing
