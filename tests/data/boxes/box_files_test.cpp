#include "kolo/data/box_files.h"

#include <cstring>
#include <numeric>

#include <sys/stat.h>

#include "data/boxes/boxes.h"
#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

void expect_holds(const fs::path& path, const SimulationBox& box) {
  const BoxFile file(path);
  EXPECT_EQ(file.size(), box.size);
  EXPECT_EQ(read_all(file, BoxField::nbody), box.nbody);
  EXPECT_EQ(read_all(file, BoxField::hydro), box.hydro);
}

class BoxFiles : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  SimulationBox box = numbered_box(6);
  std::vector<float> nbody = std::vector<float>(4 * 216), hydro = std::vector<float>(5 * 216);
};

TEST_F(BoxFiles, HoldWhatWasWritten) {
  write_box_hdf5(box, folder / "a.h5");
  testing::write_box_like(folder / "b.h5", box, {.chunk = {1, 4, 4, 4}});
  write_box_npy(box, folder / "c");
  for (const auto* const name : {"a.h5", "b.h5", "c", "c_data.npy", "c_label.npy"}) {
    SCOPED_TRACE(name);
    expect_holds(folder / name, box);
  }
  const BoxFile plain(folder / "a.h5"), chunked(folder / "b.h5"), pair(folder / "c");
  EXPECT_EQ(plain.format(), BoxFormat::hdf5);
  EXPECT_EQ(pair.format(), BoxFormat::npy);
  EXPECT_TRUE(plain.layout(BoxField::nbody).chunk.empty());
  EXPECT_TRUE(plain.layout(BoxField::nbody).is_mapped);
  EXPECT_THAT(chunked.layout(BoxField::hydro).chunk, ElementsAre(1, 4, 4, 4));
  EXPECT_FALSE(chunked.layout(BoxField::hydro).is_mapped);
  EXPECT_EQ(chunked.plane_multiple(), 4);
  EXPECT_THAT(pair.layout(BoxField::hydro).shape, ElementsAre(6, 6, 6, 5));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 4) << "nothing aside is left";
}

// The names of the datasets, their shapes and types, and NumPy's order, byte by byte.
TEST_F(BoxFiles, NpyIsNumPysOwn) {
  write_box_npy(box, folder / "c");
  const auto bytes = read_text_file(folder / "c_label.npy");
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_THAT(bytes.substr(10, 80),
              StartsWith("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 6, 6, 5), }"));
  ASSERT_EQ(bytes.size(), 128 + sizeof(float) * 5 * 216);
  EXPECT_EQ(bytes[127], '\n');
  std::vector<float> values(5 * 216);
  std::memcpy(values.data(), bytes.data() + 128, values.size() * sizeof(float));
  for (std::size_t cell = 0; cell < 216; ++cell) {
    for (std::size_t channel = 0; channel < 5; ++channel) {
      ASSERT_EQ(values[cell * 5 + channel], box.hydro[channel * 216 + cell]);
    }
  }
}

TEST_F(BoxFiles, AppearWholeOrNotAtAll) {
  write_box_hdf5(box, folder / "a.h5");
  auto broken = box;
  broken.hydro.pop_back();
  EXPECT_TRUE(says(message_of<Error>([&] { write_box_hdf5(broken, folder / "a.h5"); }),
                   {"1079 numbers for 5 channels"}));
  EXPECT_TRUE(says(message_of<Error>([&] { write_box_npy(broken, folder / "c"); }), {"1079"}));
  expect_holds(folder / "a.h5", box);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  EXPECT_TRUE(says(message_of<Error>([&] { write_box_hdf5(box, folder / "none" / "a.h5"); }),
                   {"cannot create", "none/a.h5"}));
}

// Files of either format that hold arrays, but no box.
class BadBoxes : public ::testing::TestWithParam<BoxFormat> {
 protected:
  using Lengths = std::vector<std::int64_t>;

  [[nodiscard]] static bool is_npy() { return GetParam() == BoxFormat::npy; }
  [[nodiscard]] fs::path path() const { return folder / (is_npy() ? "x_data.npy" : "x.h5"); }
  // Lengths of the box's axes, to which the format adds the channels.
  template <typename T = float>
  void put(BoxField field, Lengths shape, std::int64_t channels, T value = 0) const {
    shape.insert(is_npy() ? shape.end() : shape.begin(), channels);
    const std::vector<T> numbers(
        static_cast<std::size_t>(
            std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())),
        value);
    const bool is_nbody = field == BoxField::nbody;
    if (is_npy())
      folder.write(is_nbody ? "x_data.npy" : "x_label.npy", testing::npy_array(shape, numbers));
    else
      testing::put_hdf5_array(path(), is_nbody ? "Nbody" : "Hydro", shape, numbers);
  }
  [[nodiscard]] std::string rejection() const {
    const auto message = message_of<InputError>([&] { const BoxFile box(path()); });
    EXPECT_TRUE(says(message, {(folder / "x").string()}));
    return message;
  }

  TemporaryFolder folder;
};
INSTANTIATE_TEST_SUITE_P(Formats, BadBoxes, ::testing::Values(BoxFormat::npy, BoxFormat::hdf5),
                         [](const auto& format) {
                           return format.param == BoxFormat::npy ? "npy" : "hdf5";
                         });

TEST_P(BadBoxes, Shapes) {
  const std::string expected = is_npy() ? "(N, N, N, 4)" : "(4, N, N, N)";
  put(BoxField::hydro, {2, 2, 2}, 5);
  for (const auto& [shape, channels] : {std::pair(Lengths{2, 2, 2}, 5),
                                        {Lengths{2, 2}, 4},
                                        {Lengths{4, 2, 1}, 4},
                                        {Lengths{2, 4, 1}, 4},
                                        {Lengths{2, 2, 4}, 4},
                                        {Lengths{0, 0, 0}, 4}}) {
    put(BoxField::nbody, shape, channels);
    EXPECT_TRUE(says(rejection(),
                     {"the shape of", "expected " + expected, "a cube of cells with 4 channels"}));
  }
  put(BoxField::nbody, {3, 3, 3}, 4);
  EXPECT_TRUE(says(rejection(), {"2^3 cells", "3^3, expected as many"}));
  put(BoxField::nbody, {2, 2, 2}, 4);
  EXPECT_EQ(BoxFile(path()).size(), 2);
  put(BoxField::hydro, {2, 2, 2}, 4);
  EXPECT_TRUE(
      says(rejection(), {is_npy() ? "x_label.npy" : "Hydro", "a cube of cells with 5 channels"}));
}

TEST_P(BadBoxes, Types) {
  put(BoxField::hydro, {2, 2, 2}, 5);
  put<std::int32_t>(BoxField::nbody, {2, 2, 2}, 4);
  EXPECT_TRUE(says(rejection(), {"int32 numbers, expected float32"}));
  put<std::uint8_t>(BoxField::nbody, {2, 2, 2}, 4);
  EXPECT_TRUE(says(rejection(), {"uint8 numbers"}));
}

TEST_P(BadBoxes, NumbersBeyondFloat32) {
  put(BoxField::hydro, {2, 2, 2}, 5);
  put(BoxField::nbody, {2, 2, 2}, 4, 1e300);
  const BoxFile file(path());
  EXPECT_EQ(read_all(file, BoxField::hydro), std::vector<float>(40));
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)read_all(file, BoxField::nbody); }),
                   {"beyond float32's range at cell (0, 0, 0)"}));
  std::vector<float> scratch, part(4);
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     file.read_region(BoxField::nbody, {{1, 0, 1}, {1, 1, 1}}, scratch, part);
                   }),
                   {"at cell (1, 0, 1)"}));
}

class BadHdf5 : public BoxFiles {
 protected:
  // Message that rejects a file made by `fill`; each names it.
  std::string rejection(const std::function<void(hid_t)>& fill) {
    write_hdf5(path, fill);
    return rejection();
  }
  std::string rejection() {
    const auto message = message_of<InputError>([&] { const BoxFile file(path); });
    EXPECT_TRUE(says(message, {path}));
    return message;
  }
  // The rejection of a file whose Hydro is right and whose Nbody is this.
  std::string rejection(Hdf5Field bad) {
    return rejection([&](hid_t file) {
      bad.name = "Nbody";
      write_hdf5_field(file, bad);
      write_hdf5_field(file, {.name = "Hydro", .shape = {5, 6, 6, 6}, .values = &hydro});
    });
  }

  std::string path = folder / "bad.h5";
  const std::vector<hsize_t> shape = {4, 6, 6, 6};
};

TEST_F(BadHdf5, MissingDatasets) {
  EXPECT_TRUE(says(rejection([&](hid_t file) {
                     write_hdf5_field(file, {.name = "Nbody", .shape = shape, .values = &nbody});
                   }),
                   {"Hydro", "no such dataset", "holds Nbody"}));
  EXPECT_TRUE(says(rejection([](hid_t) {}), {"Nbody", "holds nothing"}));
}

TEST_F(BadHdf5, ShapesBeyond64Bits) {
  const hsize_t huge = hsize_t{1} << 31;
  EXPECT_TRUE(says(rejection({.shape = {4, huge, huge, huge}, .chunk = {1, 64, 64, 64}}),
                   {"overflows 64 bits"}));
}

// hdf5_arrays_test.cpp has what else keeps a dataset from being read.
TEST_F(BadHdf5, TruncatedFiles) {
  write_box_hdf5(box, path);
  const auto whole = read_text_file(path);
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{100}}) {
    folder.write("bad.h5", whole.substr(0, size));
    EXPECT_TRUE(says(rejection(), {"cannot open", "truncated"}));
  }
  folder.write("bad.h5", whole.substr(0, 8));
  EXPECT_TRUE(says(rejection(), {"cannot open"}));
}

TEST_F(BadHdf5, DamagedPackedNumbers) {
  auto noisy = numbered_box(6);
  testing::write_box_like(path, noisy, {.chunk = {4, 6, 6, 6}, .deflate = 1});
  auto bytes = read_text_file(path);
  for (std::size_t at = bytes.size() / 2; at < bytes.size() / 2 + 64; ++at) bytes[at] = '\x55';
  folder.write("bad.h5", bytes);
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     const BoxFile file(path);
                     (void)read_all(file, BoxField::nbody);
                     (void)read_all(file, BoxField::hydro);
                   }),
                   {path}));
}

TEST_F(BadHdf5, OtherThings) {
  EXPECT_TRUE(
      says(message_of<InputError>([&] { const BoxFile file(folder / "none"); }), {"neither"}));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { const BoxFile file(folder.path()); }), {"is a folder"}));
  folder.write("bad.h5", "");
  EXPECT_TRUE(says(rejection(), {"no simulation box"}));
  folder.write("bad.h5", "something else");
  EXPECT_TRUE(says(rejection(), {"neither's signature"}));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(says(message_of<InputError>([&] { const BoxFile file(folder / "pipe"); }),
                   {"not a regular file"}));
}

TEST_F(BoxFiles, AreConverted) {
  testing::write_box_like(folder / "a.h5", box, {.chunk = {2, 4, 4, 4}, .deflate = 1});
  std::vector<std::int64_t> progress;
  convert_box(BoxFile(folder / "a.h5"), folder / "b",
              {.progress = [&](std::int64_t done, std::int64_t total) {
                progress.push_back(done);
                EXPECT_EQ(total, 12);
              }});
  EXPECT_EQ(progress.back(), 12);
  expect_holds(folder / "b", box);
  convert_box(BoxFile(folder / "b"), folder / "c.h5", {.to = BoxFormat::hdf5});
  expect_holds(folder / "c.h5", box);
}

TEST_F(BoxFiles, ConversionSparesWhatIsThere) {
  write_box_hdf5(box, folder / "a.h5");
  folder.write("b_label.npy", "precious");
  const BoxFile file(folder / "a.h5");
  EXPECT_TRUE(says(message_of<InputError>([&] { convert_box(file, folder / "b", {}); }),
                   {"b_label.npy is there already", "--force"}));
  EXPECT_EQ(read_text_file(folder / "b_label.npy"), "precious");
  convert_box(file, folder / "b", {.replace = true});
  expect_holds(folder / "b", box);
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     convert_box(file, folder / "a.h5", {.to = BoxFormat::hdf5, .replace = true});
                   }),
                   {"is what is read"}));
}

}  // namespace
}  // namespace kolo::testing
