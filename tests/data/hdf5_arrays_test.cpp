// Samples of one's own in HDF5, and what may be wrong with such files.
#include <array>
#include <functional>

#include "data/array_files.h"
#include "data/read_sample.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/array_samples.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

class Hdf5Arrays : public ::testing::Test {
 protected:
  void write(const std::function<void(hid_t file)>& fill, hsize_t user_block = 0) const {
    testing::write_hdf5(path, fill, user_block);
  }
  // Writes these inputs beside labels that are right.
  void write_inputs(Hdf5Field inputs, hsize_t user_block = 0) const {
    inputs.name = "inputs";
    write(
        [&](hid_t file) {
          write_hdf5_field(file, inputs);
          add_labels(file);
        },
        user_block);
  }
  void add_labels(hid_t file) const {
    write_hdf5_field(
        file, {.name = "labels", .type = H5T_NATIVE_INT32, .shape = {4}, .numbers = labels.data()});
  }
  [[nodiscard]] std::string rejection() const {
    const auto message = message_of<InputError>([&] { (void)ArraySamples(path); });
    EXPECT_TRUE(says(message, {path}));
    return message;
  }

  TemporaryFolder folder;
  std::string path = folder / "all.h5";
  const std::array<std::int32_t, 4> labels{1, 0, 2, 1};
  const std::array<float, 8> numbers{1, 2, 3, 4, 5, 6, 7, 8};
};

TEST_F(Hdf5Arrays, ArraysMayBeInGroupsAndAfterAUserBlock) {
  write(
      [&](hid_t file) {
        H5Gclose(H5Gcreate2(file, "run", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        write_hdf5_field(file, {.name = "run/field", .shape = {4, 2}, .numbers = numbers.data()});
        H5Lcreate_soft("/run/field", file, "inputs", H5P_DEFAULT, H5P_DEFAULT);
        add_labels(file);
      },
      512);
  EXPECT_THAT(read_sample(ArraySamples(path), 3).input, ElementsAre(7, 8));
  EXPECT_THAT(read_sample(ArraySamples(path, {.inputs = {"run/field"}}), 3).input,
              ElementsAre(7, 8));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { (void)ArraySamples(path, {.inputs = {"walk/field"}}); }),
           {"has no walk/field"}));
}

TEST_F(Hdf5Arrays, AllKindsOfNumbersAreRead) {
  // h5py writes bool, and classes with names, in this way.
  const hid_t truth = H5Tenum_create(H5T_NATIVE_INT8);
  const std::int8_t no = 0, yes = 1;
  H5Tenum_insert(truth, "FALSE", &no);
  H5Tenum_insert(truth, "TRUE", &yes);
  const std::array<std::int8_t, 4> truths{1, 0, 0, 1};
  write_inputs({.type = truth, .shape = {4}, .numbers = truths.data()});
  EXPECT_THAT(read_sample(ArraySamples(path), 3).input, ElementsAre(1));
  EXPECT_THAT(read_sample(ArraySamples(path), 2).input, ElementsAre(0));
  H5Tclose(truth);
  const hid_t animals = H5Tenum_create(H5T_STD_I16BE);
  const std::array<std::int16_t, 3> codes{0x0000, 0x0100,
                                          0x0200};  // 0, 1 and 2 in that order of bytes
  H5Tenum_insert(animals, "CAT", &codes[0]);
  H5Tenum_insert(animals, "DOG", &codes[1]);
  H5Tenum_insert(animals, "EEL", &codes[2]);
  const std::array<std::int16_t, 4> seen{codes[2], codes[0], codes[1], codes[2]};
  write([&](hid_t file) {
    write_hdf5_field(file, {.name = "inputs", .shape = {4, 2}, .numbers = numbers.data()});
    write_hdf5_field(file,
                     {.name = "labels", .type = animals, .shape = {4}, .numbers = seen.data()});
  });
  EXPECT_EQ(ArraySamples(path).layout().classes, 3);
  EXPECT_EQ(read_sample(ArraySamples(path), 2).label, 1);
  H5Tclose(animals);

  // PyTables' bool.
  write_inputs({.type = H5T_NATIVE_B8, .shape = {4}, .numbers = truths.data()});
  EXPECT_THAT(read_sample(ArraySamples(path), 0).input, ElementsAre(1));

  const hid_t half = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(half, 15, 10, 5, 0, 10);
  H5Tset_size(half, 2);
  H5Tset_ebias(half, 15);
  const std::array<std::uint16_t, 4> halves{0x3c00, 0xc000, 0x3800, 0x7bff};
  write_inputs({.type = half, .shape = {4}, .numbers = halves.data()});
  EXPECT_THAT(read_sample(ArraySamples(path), 1).input, ElementsAre(-2));
  EXPECT_THAT(read_sample(ArraySamples(path), 3).input, ElementsAre(65504));
  H5Tclose(half);
}

TEST_F(Hdf5Arrays, WhatHoldsNoNumbersIsNamed) {
  const auto rejected = [&](hid_t type) {
    write_inputs({.type = type, .shape = {4}});
    H5Tclose(type);
    return rejection();
  };
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 5);
  EXPECT_TRUE(says(rejected(text), {"it holds text"}));
  const hid_t complex = H5Tcreate(H5T_COMPOUND, 8);
  H5Tinsert(complex, "r", 0, H5T_NATIVE_FLOAT);
  H5Tinsert(complex, "i", 4, H5T_NATIVE_FLOAT);
  EXPECT_TRUE(says(rejected(complex), {"as complex numbers are"}));
  const hsize_t three = 3;
  EXPECT_TRUE(says(rejected(H5Tarray_create2(H5T_NATIVE_FLOAT, 1, &three)), {"arrays in each"}));
  EXPECT_TRUE(says(rejected(H5Tvlen_create(H5T_NATIVE_FLOAT)), {"different lengths"}));
  write([&](hid_t file) {
    H5Gclose(H5Gcreate2(file, "inputs", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
  EXPECT_TRUE(says(rejection(), {"a group, expected a dataset"}));
}

TEST_F(Hdf5Arrays, NumbersThatAreElsewhereAreRefused) {
  write(
      [&](hid_t file) { H5Lcreate_soft("/run/field", file, "inputs", H5P_DEFAULT, H5P_DEFAULT); });
  EXPECT_TRUE(says(rejection(), {"a link to /run/field, which is not in the file"}));
  write([&](hid_t file) {
    H5Lcreate_external("other.h5", "/inputs", file, "inputs", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_TRUE(says(rejection(), {"external link, into another file (other.h5)"}));
  folder.write("raw", std::string(sizeof(numbers), '\0'));
  write_inputs({.shape = {4, 2}, .more = [&](hid_t creation) {
                  H5Pset_external(creation, (folder / "raw").c_str(), 0, sizeof(numbers));
                }});
  EXPECT_TRUE(says(rejection(), {"external storage"}));
  write_inputs({.shape = {4, 2}, .more = [&](hid_t creation) {
                  const std::array<hsize_t, 2> shape{4, 2};
                  const hid_t space = H5Screate_simple(2, shape.data(), nullptr);
                  H5Pset_virtual(creation, space, "gone.h5", "inputs", space);
                  H5Sclose(space);
                }});
  EXPECT_TRUE(says(rejection(), {"virtual dataset"}));
}

TEST_F(Hdf5Arrays, NumbersThatWereNeverWrittenAreRefused) {
  write_inputs({.shape = {4, 2}});
  EXPECT_TRUE(says(rejection(), {"inputs of"}));
  EXPECT_TRUE(says(rejection(), {"no numbers were ever written"}));
  write_inputs({.shape = {4, 2}, .chunk = {1, 2}});
  EXPECT_TRUE(says(rejection(), {"no numbers were ever written"}));

  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "inputs", H5P_DEFAULT);
  const hid_t all = H5Dget_space(dataset);
  const std::array<hsize_t, 2> start{1, 0}, count{2, 2};
  H5Sselect_hyperslab(all, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
  const hid_t here = H5Screate_simple(2, count.data(), nullptr);
  H5Dwrite(dataset, H5T_NATIVE_FLOAT, here, all, H5P_DEFAULT, numbers.data());
  H5Sclose(here);
  H5Sclose(all);
  H5Dclose(dataset);
  H5Fclose(file);
  EXPECT_TRUE(says(rejection(), {"2 of its 4 chunks were never written"}));

  // Labels that are zeros would be classes.
  write([&](hid_t other) {
    write_hdf5_field(other, {.name = "inputs", .shape = {4, 2}, .numbers = numbers.data()});
    write_hdf5_field(other, {.name = "labels", .type = H5T_NATIVE_INT32, .shape = {4}});
  });
  EXPECT_TRUE(says(rejection(), {"labels of", "ever written"}));
  write_inputs({.shape = {0, 2}});
  EXPECT_TRUE(says(rejection(), {"expected samples in front, at least one"}));
}

// One that is registered while the file is written and gone when it is read.
TEST_F(Hdf5Arrays, FiltersThatAreNotThereAreRefusedAtOnce) {
  constexpr H5Z_filter_t number = 498;
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS,
                            number,
                            1,
                            1,
                            "squeezer",
                            nullptr,
                            nullptr,
                            [](unsigned, std::size_t, const unsigned*, std::size_t bytes,
                               std::size_t*, void**) { return bytes; }};
  H5Zregister(&filter);
  write_inputs(
      {.shape = {4, 2}, .numbers = numbers.data(), .chunk = {4, 2}, .more = [](hid_t creation) {
         H5Pset_filter(creation, number, H5Z_FLAG_OPTIONAL, 0, nullptr);
       }});
  EXPECT_EQ(ArraySamples(path).size(), 4);
  H5Zunregister(number);
  EXPECT_TRUE(says(rejection(), {"filter squeezer (498)", "gzip"}));
}

// The version of a dataset's layout is raised beyond what any library knows.
TEST_F(Hdf5Arrays, NewerFilesAreCalledThat) {
  write_inputs({.shape = {4, 2}, .numbers = numbers.data(), .chunk = {4, 2}});
  auto bytes = read_text_file(path);
  // Version 3, chunked, rank 2 and the number's size.
  const auto at = bytes.find(std::string("\x03\x02\x03", 3));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = '\x63';
  folder.write("all.h5", bytes);
  EXPECT_TRUE(says(rejection(), {"inputs of", "as newer versions of HDF5 do"}));
  bytes[8] = '\x63';  // of the whole file
  folder.write("all.h5", bytes);
  EXPECT_TRUE(says(rejection(), {"as newer versions of HDF5 do"}));
  folder.write("all.h5", "something else");
  EXPECT_TRUE(says(rejection(), {"signature is not in it"}));
}

TEST_F(Hdf5Arrays, DamagedChunksAreSamplesThatCanNotBeRead) {
  write_inputs(
      {.shape = {4, 2}, .numbers = numbers.data(), .chunk = {1, 2}, .more = [](hid_t creation) {
         H5Pset_fletcher32(creation);
       }});
  auto bytes = read_text_file(path);
  const auto place = bytes.find(std::string_view(reinterpret_cast<const char*>(&numbers[4]), 8));
  ASSERT_NE(place, std::string::npos);
  bytes[place] ^= 1;
  folder.write("all.h5", bytes);
  const ArraySamples samples(path);
  EXPECT_THAT(read_sample(samples, 1).input, ElementsAre(3, 4));
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)read_sample(samples, 2); }),
                   {"inputs of", "sample 2"}));
}

}  // namespace
}  // namespace kolo::testing
