// Attributes of HDF5: read, and copied to other files.
#include <bit>
#include <cstring>
#include <map>

#include <hdf5.h>
#include <nlohmann/json.hpp>

#include "data/boxes/boxes.h"
#include "kolo/data/array_file.h"
#include "kolo/data/box_files.h"
#include "support/matchers.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t beyond_double = (std::int64_t{1} << 60) + 1;

// Shapes of attributes: none is a single value.
void put(hid_t object, const char* name, hid_t type, const void* values,
         const std::vector<hsize_t>& shape = {}) {
  const hid_t space = shape.empty()
                          ? H5Screate(H5S_SCALAR)
                          : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  const hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(attribute, 0) << name;
  ASSERT_GE(H5Awrite(attribute, type, values), 0) << name;
  H5Aclose(attribute);
  H5Sclose(space);
}

void put_text(hid_t object, const char* name, const char* text) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  put(object, name, type, static_cast<const void*>(&text));
  H5Tclose(type);
}

void put_bool(hid_t object, const char* name, bool is_true) {
  const hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
  std::int8_t value = 0;
  H5Tenum_insert(type, "FALSE", &value);
  value = 1;
  H5Tenum_insert(type, "TRUE", &value);
  value = is_true ? 1 : 0;
  put(object, name, type, &value);
  H5Tclose(type);
}

void put_structure(hid_t object, const char* name) {
  struct Pair {
    double weight;
    std::int32_t count;
  } const pair{.25, 3};
  const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof pair);
  H5Tinsert(type, "weight", HOFFSET(Pair, weight), H5T_NATIVE_DOUBLE);
  H5Tinsert(type, "count", HOFFSET(Pair, count), H5T_NATIVE_INT32);
  put(object, name, type, &pair);
  H5Tclose(type);
}

// As programs of many kinds leave them.
void annotate(const fs::path& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const std::int32_t seven = std::endian::native == std::endian::little ? 0x07000000 : 7;
  const std::uint64_t largest = ~std::uint64_t{0};
  const std::int64_t id = beyond_double;
  const std::vector<float> edges{.5F, 1.5F, 2.5F, 3.5F, 4.5F, 5.5F};
  put(file, "id", H5T_STD_I64LE, &id);
  put(file, "largest", H5T_STD_U64LE, &largest);
  put(file, "seven", H5T_STD_I32BE, &seven);
  put(file, "edges", H5T_NATIVE_FLOAT, edges.data(), {2, 3});
  put_text(file, "code", "žofka 1.0");
  put_bool(file, "is_periodic", true);
  put_structure(file, "weighting");
  const hid_t gas = H5Dopen2(file, "Hydro", H5P_DEFAULT),
              matter = H5Dopen2(file, "Nbody", H5P_DEFAULT);
  put_text(gas, "units", "mean density");
  put(matter, "particles", H5T_STD_I64LE, &id, {1});
  H5Dclose(gas);
  H5Dclose(matter);
  H5Fclose(file);
}

// The types, shapes and bytes of all attributes, as the library tells them.
std::map<std::string, std::string> stored(const fs::path& path, const char* object_name) {
  std::map<std::string, std::string> all;
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t object = H5Oopen(file, object_name, H5P_DEFAULT);
  const auto add = [](hid_t owner, const char* name, const H5A_info_t*, void* to) -> herr_t {
    const hid_t attribute = H5Aopen(owner, name, H5P_DEFAULT);
    const hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    std::size_t length = 0;
    H5Tencode(type, nullptr, &length);
    std::string text(length, '\0');
    H5Tencode(type, text.data(), &length);
    for (int i = 0; i < H5Sget_simple_extent_ndims(space); ++i) {
      std::array<hsize_t, 8> shape{};
      H5Sget_simple_extent_dims(space, shape.data(), nullptr);
      text += std::to_string(shape[static_cast<std::size_t>(i)]) + " ";
    }
    const auto points = static_cast<std::size_t>(H5Sget_simple_extent_npoints(space));
    std::string bytes(points * H5Tget_size(type), '\0');
    H5Aread(attribute, type, bytes.data());
    if (H5Tis_variable_str(type) > 0) {
      char* own = nullptr;
      std::memcpy(&own, bytes.data(), sizeof own);
      bytes = own;
      H5free_memory(own);
    }
    (*static_cast<std::map<std::string, std::string>*>(to))[name] = text + bytes;
    H5Aclose(attribute);
    return 0;
  };
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &all);
  H5Oclose(object);
  H5Fclose(file);
  return all;
}

class Hdf5Attributes : public ::testing::Test {
 protected:
  Hdf5Attributes() {
    write_box_hdf5(numbered_box(4), box_);
    annotate(box_);
  }

  // Makes a gas field with the attributes of the box.
  void predict() const {
    HydroFile file(gas_, 4, box_);
    file.commit();
  }

  TemporaryFolder folder_;
  fs::path box_ = folder_ / "box.h5", gas_ = folder_ / "gas.h5";
};

TEST_F(Hdf5Attributes, AreReadAsTheyAre) {
  const auto attributes = read_hdf5_attributes(box_);
  EXPECT_EQ(attributes.at("id"), beyond_double);
  EXPECT_EQ(attributes.at("largest"), ~std::uint64_t{0});
  EXPECT_EQ(attributes.at("seven"), 7);
  EXPECT_EQ(attributes.at("edges"), (std::vector{.5, 1.5, 2.5, 3.5, 4.5, 5.5}));
  EXPECT_EQ(attributes.at("omega_m"), .31);
  EXPECT_EQ(attributes.at("code"), "žofka 1.0");
  EXPECT_EQ(attributes.at("is_periodic"), 1);
  EXPECT_EQ(attributes.at("weighting"), "neither numbers nor text");
  EXPECT_EQ(attributes.at("Hydro.units"), "mean density");
  EXPECT_EQ(attributes.at("Nbody.particles"), std::vector{beyond_double});
}

TEST_F(Hdf5Attributes, AreKeptByPredictions) {
  predict();
  for (const auto* const object : {"/", "Hydro"}) {
    EXPECT_EQ(stored(gas_, object), stored(box_, object)) << object;
    EXPECT_THAT(stored(box_, object), ::testing::Not(IsEmpty()));
  }
}

TEST_F(Hdf5Attributes, OfAnySizeAreKept) {
  const std::vector<double> many(20000, .5);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
  const hid_t file = H5Fopen(box_.c_str(), H5F_ACC_RDWR, access);
  // An object takes an attribute above 64 KiB where it was made in HDF5 1.8's layout.
  put(file, "redshifts", H5T_NATIVE_DOUBLE, many.data(), {many.size()});
  H5Fclose(file);
  H5Pclose(access);
  predict();
  EXPECT_EQ(read_hdf5_attributes(gas_).at("redshifts"), many);
}

TEST_F(Hdf5Attributes, ReferencesToTheOtherFileAreNotCopied) {
  const hid_t file = H5Fopen(box_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  hobj_ref_t reference{};
  H5Rcreate(&reference, file, "Nbody", H5R_OBJECT, -1);
  put(file, "main_field", H5T_STD_REF_OBJ, &reference);
  H5Fclose(file);
  predict();
  EXPECT_EQ(stored(gas_, "/").size() + 1, stored(box_, "/").size());
}

}  // namespace
}  // namespace kolo::testing
