#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "data/array_files.h"
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

inline std::vector<float> read_all(const BoxFile& box, BoxField field) {
  const auto edge = box.size();
  std::vector<float> values(static_cast<std::size_t>(channels_of(field) * edge * edge * edge));
  box.read_planes(field, 0, edge, values);
  return values;
}

// Cell of a cube that cell `out` of the turned one comes from.
inline std::array<std::int64_t, 3> source_of(const CubeSymmetry& symmetry,
                                             const std::array<std::int64_t, 3>& out,
                                             std::int64_t size) {
  std::array<std::int64_t, 3> in{};
  for (std::size_t j = 0; j < 3; ++j) {
    const auto at = out[static_cast<std::size_t>(symmetry.axis[j])];
    in[j] = symmetry.sign[j] > 0 ? at : size - 1 - at;
  }
  return in;
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
