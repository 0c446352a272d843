#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <hdf5.h>

#include "kolo/data/box_files.h"

namespace kolo::testing {

// A box of small whole numbers, so that sums and differences of them are exact; no two samples of
// it are alike.
inline SimulationBox numbered_box(std::int64_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  const auto fill = [&](std::int64_t channels) {
    std::vector<float> values(static_cast<std::size_t>(channels * size * size * size));
    for (auto& value : values) value = static_cast<float>(static_cast<int>(random() % 4001) - 2000);
    return values;
  };
  SimulationBox box{.size = size};
  box.nbody = fill(nbody_channels);
  box.hydro = fill(hydro_channels);
  box.parameters = {{"seed", 17}, {"omega_m", .31}};
  return box;
}

// How a test writes a dataset of an HDF5 file.
struct Hdf5Field {
  std::string name;
  std::vector<hsize_t> shape;
  const std::vector<float>* values = nullptr;  // none: nothing is written
  hid_t type = H5T_IEEE_F32LE;                 // in the file
  std::vector<hsize_t> chunk = {};
  unsigned deflate = 0;                           // level; 0: none
  std::function<void(hid_t creation)> more = {};  // sets further properties
};

inline void write_hdf5_field(hid_t file, const Hdf5Field& field) {
  const hid_t space =
      H5Screate_simple(static_cast<int>(field.shape.size()), field.shape.data(), nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  if (!field.chunk.empty()) {
    H5Pset_chunk(creation, static_cast<int>(field.chunk.size()), field.chunk.data());
  }
  if (field.deflate > 0) H5Pset_deflate(creation, field.deflate);
  if (field.more) field.more(creation);
  const hid_t dataset =
      H5Dcreate2(file, field.name.c_str(), field.type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (field.values != nullptr) {
    H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, field.values->data());
  }
  H5Dclose(dataset);
  H5Pclose(creation);
  H5Sclose(space);
}

// Makes an HDF5 file, filled by `fill`.
inline void write_hdf5(const std::string& path, const std::function<void(hid_t file)>& fill,
                       hsize_t user_block = 0) {
  const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(creation, user_block);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, H5P_DEFAULT);
  fill(file);
  H5Fclose(file);
  H5Pclose(creation);
}

// The fields of a box in the way that `like` says.
inline void write_box_like(const std::string& path, const SimulationBox& box, Hdf5Field like,
                           hsize_t user_block = 0) {
  const auto edge = static_cast<hsize_t>(box.size);
  write_hdf5(
      path,
      [&](hid_t file) {
        like.name = "Nbody";
        like.shape = {4, edge, edge, edge};
        like.values = &box.nbody;
        write_hdf5_field(file, like);
        like.name = "Hydro";
        like.shape = {5, edge, edge, edge};
        like.values = &box.hydro;
        write_hdf5_field(file, like);
      },
      user_block);
}

}  // namespace kolo::testing
