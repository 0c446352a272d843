#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kolo/data/array_file.h"

// Files of simulation boxes, in two formats that hold the same numbers (float32, little-endian):
//
//   HDF5     root datasets Nbody [4, N, N, N] and Hydro [5, N, N, N], parameters as attributes of
//            the root
//   .npy     <prefix>_data.npy [N, N, N, 4] and <prefix>_label.npy [N, N, N, 5], C order: the
//            channels of a cell lie side by side; no parameters
//
// Other floating-point types, and .npy in Fortran order, are read too, and converted on the way.
namespace kolo {

// Channels of a box: dark matter (density and velocity) and gas (the same, and temperature).
inline constexpr std::int64_t nbody_channels = 4, hydro_channels = 5;

// A periodic cube of simulated universe, normalized as networks see it: ln(1 + rho) / 14 (gas: ln
// rho / 14) with rho in units of its mean, v / (900 km/s), ln(T / K) / 8 - 1.5.
struct SimulationBox {
  std::int64_t size = 0;     // cells an edge
  std::vector<float> nbody;  // [4, size, size, size]: rho, vx, vy, vz of dark matter
  std::vector<float> hydro;  // [5, size, size, size]: rho, vx, vy, vz, T of gas
  // How it was made, written beside the fields: the seed, the cosmology, the resolution.
  std::vector<std::pair<std::string, double>> parameters;
};

enum class BoxField { nbody, hydro };
enum class BoxFormat { hdf5, npy };

[[nodiscard]] constexpr std::int64_t channels_of(BoxField field) {
  return field == BoxField::nbody ? nbody_channels : hydro_channels;
}

// What the channels are, in their order.
[[nodiscard]] std::vector<std::string> channel_names(BoxField field);

// Both write aside, flush and rename: a file appears when it is whole and replaces an older one
// (the two files of a pair one after the other). Error when the box's fields have other sizes than
// its `size` says, or nothing can be written there.
//
// `chunk` > 0 lays HDF5 out in chunks of chunk^3 cells of one channel; 0: contiguous, which is the
// fastest to read crops from.
void write_box_hdf5(const SimulationBox& box, const std::filesystem::path& file,
                    std::int64_t chunk = 0);
void write_box_npy(const SimulationBox& box, const std::filesystem::path& prefix);

// The two files of a pair.
[[nodiscard]] std::filesystem::path npy_data_file(const std::filesystem::path& prefix);
[[nodiscard]] std::filesystem::path npy_label_file(const std::filesystem::path& prefix);

// Cells start to start + extent of a cube.
struct Region {
  std::array<std::int64_t, 3> start{}, extent{};

  [[nodiscard]] std::int64_t cells() const { return extent[0] * extent[1] * extent[2]; }
};

// Which fields are opened: both; dark matter alone, whatever else is there; those that are there.
enum class BoxFields { both, nbody, any };

class FieldSource;

// An open box, told by its content: an HDF5 file, either file of a .npy pair, or the pair's prefix;
// for dark matter alone also a .npy file of its shape under any name.
// Everything that can be checked without reading all numbers is checked when it is opened;
// InputError names the file, the field or offset, what was expected and what was found. A file must
// not shrink while it is open: it is mapped into memory, where the system ends a process that reads
// beyond the end (SIGBUS). Const functions may be called by any number of threads at once.
class BoxFile {
 public:
  explicit BoxFile(const std::filesystem::path& path, BoxFields fields = BoxFields::both);

  [[nodiscard]] std::int64_t size() const { return size_; }  // cells an edge
  [[nodiscard]] BoxFormat format() const { return format_; }
  // Of fields that were not opened the functions below are an Error.
  [[nodiscard]] bool has(BoxField field) const {
    return sources_[field == BoxField::hydro] != nullptr;
  }
  [[nodiscard]] const ArrayLayout& layout(BoxField field) const;
  // What a user should know though it is no error, for example that float64 is converted.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  // How many planes at a time are read without unpacking anything twice.
  [[nodiscard]] std::int64_t plane_multiple() const;
  // Planes first to first + count of the first axis, written to `out` as [channels, count, N, N].
  void read_planes(BoxField field, std::int64_t first, std::int64_t count,
                   std::span<float> out) const;

  // The numbers of a region inside the box, written to `out` as [channels, extent]. `scratch` is
  // memory to work in where numbers can't be read where they lie, kept from call to call.
  void read_region(BoxField field, const Region& region, std::vector<float>& scratch,
                   std::span<float> out) const;

  // For datasets, which read crops.
  [[nodiscard]] std::shared_ptr<const FieldSource> source(BoxField field) const;

 private:
  std::int64_t size_ = 0;
  BoxFormat format_ = BoxFormat::hdf5;
  std::array<std::shared_ptr<const FieldSource>, 2> sources_;
  std::vector<std::string> warnings_;
};

struct ConvertBoxOptions {
  BoxFormat to = BoxFormat::npy;
  std::int64_t chunk = 0;  // as for write_box_hdf5
  bool replace = false;    // files that are there; otherwise they are an InputError
  // Called with planes done and in all, both fields counted.
  std::function<void(std::int64_t, std::int64_t)> progress;
};

// Writes the box again in the other or the same format, some planes at a time (about 64 MiB, more
// where the chunks of either file are thicker), so that it may be larger than the memory. HDF5
// keeps the attributes of the root and of the two datasets as they are. Returns what the user
// should know of things that the new file has no place for.
std::vector<std::string> convert_box(const BoxFile& box, const std::filesystem::path& to,
                                     const ConvertBoxOptions& options);

}  // namespace kolo
