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

#include "kolo/base/file.h"
#include "kolo/data/array_file.h"

// Files of simulation boxes, in two formats that hold the same numbers (float32, little-endian):
//
//   HDF5     root datasets Nbody [4, N, N, N] and Hydro [5, N, N, N], parameters as attributes of
//            the root
//   .npy     <prefix>_data.npy [N, N, N, 4] and <prefix>_label.npy [N, N, N, 5], C order: the
//            channels of a cell lie side by side; no parameters
//
// Other floating-point types are read too, and converted on the way.
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

[[nodiscard]] std::vector<std::string> channel_names(BoxField field);

// Write a box aside, flush and rename: a file appears when it is whole and replaces an older one
// (the two files of a pair one after the other). Error if the fields have other sizes than `size`
// says, or can't be written. HDF5 is contiguous.
void write_box_hdf5(const SimulationBox& box, const std::filesystem::path& file);
void write_box_npy(const SimulationBox& box, const std::filesystem::path& prefix);

// The two files of a pair.
[[nodiscard]] std::filesystem::path npy_data_file(const std::filesystem::path& prefix);
[[nodiscard]] std::filesystem::path npy_label_file(const std::filesystem::path& prefix);

// Cells start to start + extent of a cube.
struct Region {
  std::array<std::int64_t, 3> start{}, extent{};

  [[nodiscard]] std::int64_t cells() const { return extent[0] * extent[1] * extent[2]; }
};

// Fields to open: both; dark matter alone; those that the file has.
enum class BoxFields { both, nbody, any };

class FieldSource;

// An open box, told by its content: an HDF5 file, either file of a .npy pair, or the pair's prefix;
// for dark matter alone also a .npy file of its shape under any name. Opening checks all but the
// numbers; InputError names the file, the field or offset, what was expected and what was found. A
// file must not shrink while it is open: the system ends a process that reads mapped memory beyond
// the end (SIGBUS). Const functions may be called by any number of threads at once.
class BoxFile {
 public:
  explicit BoxFile(const std::filesystem::path& path, BoxFields fields = BoxFields::both);

  [[nodiscard]] std::int64_t size() const { return size_; }  // cells an edge
  [[nodiscard]] BoxFormat format() const { return format_; }
  // Tells whether a field was opened; the functions below throw Error for others.
  [[nodiscard]] bool has(BoxField field) const {
    return sources_[field == BoxField::hydro] != nullptr;
  }
  [[nodiscard]] const ArrayLayout& layout(BoxField field) const;
  // Notes for the user that are no error, for example that float64 is converted.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  // Number of planes to read at a time, so that no chunk is unpacked twice.
  [[nodiscard]] std::int64_t plane_multiple() const;
  // Reads planes first to first + count of the first axis, as [channels, count, N, N].
  void read_planes(BoxField field, std::int64_t first, std::int64_t count,
                   std::span<float> out) const;

  // Reads a region inside the box, as [channels, extent]. `scratch` is memory for numbers that
  // can't be read where they lie, kept from call to call.
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
  bool replace = false;  // existing files; otherwise they are an InputError
  // Called with planes done and in all, both fields counted.
  std::function<void(std::int64_t, std::int64_t)> progress;
};

// Writes the box in the other or the same format, some planes at a time (about 64 MiB, more where
// chunks are thicker), so that it may be larger than memory. HDF5 keeps the attributes of the root
// and of the two datasets; .npy has none.
void convert_box(const BoxFile& box, const std::filesystem::path& to,
                 const ConvertBoxOptions& options);

// A gas field that several processes fill, each with regions of its own: FILE.npy is [N, N, N, 5],
// any other name is HDF5 with the root dataset Hydro [5, N, N, N]. The file has its full size from
// the beginning, so writers need neither an HDF5 library with MPI nor each other, and a full disk
// is an error of a call.

// Place and format in which processes write into the file; each makes a HydroWriter of it.
struct HydroTarget {
  std::filesystem::path file;  // aside, until the whole is there
  BoxFormat format = BoxFormat::hdf5;
  std::int64_t offset = 0;  // bytes from the file's start to the first number
  std::int64_t size = 0;    // cells per edge
  std::int64_t channels = hydro_channels;
};

// The file as a whole, held by one of the processes: made aside in the same folder, it appears
// under its name with commit(), and vanishes without.
class HydroFile {
 public:
  // `attributes_of`: an HDF5 file whose attributes of the root and of Hydro are copied to HDF5;
  // empty: none. Error if the file can't be written, or there is no room for it. Removes files
  // aside that killed processes have left.
  HydroFile(const std::filesystem::path& file, std::int64_t size,
            const std::filesystem::path& attributes_of = {});

  [[nodiscard]] const HydroTarget& place() const { return target_; }
  // To be called after everyone's flush().
  void commit();

 private:
  AtomicFile aside_;
  FileDescriptor lock_;  // tells other processes that this one lives
  HydroTarget target_;
};

// Writer of one process.
class HydroWriter {
 public:
  explicit HydroWriter(HydroTarget place);

  // Writes [channels, extent], cells that nobody else writes. Error outside of the box, and if the
  // system can't write.
  void write(const Region& region, std::span<const float> values);
  // Returns when everything written is on the storage device.
  void flush() const;

 private:
  void write_channels(const Region& region, std::span<const float> values);
  void write_cells(const Region& region, std::span<const float> values);
  void write_at(std::int64_t number, std::span<const float> values) const;

  HydroTarget target_;
  FileDescriptor file_;
  std::vector<float> cells_;  // a plane with the channels of a cell side by side
};

// One of the 48 ways to turn and mirror a cube onto itself, as a signed permutation matrix M that
// takes a cell of the result to the cell it comes from: out(i) = in(M i), with i counted from the
// cube's centre. Row j of M has sign[j] in column axis[j] and zeros elsewhere.
struct CubeSymmetry {
  std::array<int, 3> axis{0, 1, 2};
  std::array<int, 3> sign{1, 1, 1};

  [[nodiscard]] int determinant() const;  // 1: a rotation; -1: with a reflection
  bool operator==(const CubeSymmetry&) const = default;
};

// All 48, the 24 rotations first; number 0 changes nothing.
[[nodiscard]] const std::array<CubeSymmetry, 48>& cube_group();

// The 24 of NERSC's tutorial (ml-pm-training-2022, utils/data_loader.py), in its order. They are
// distinct but no group: eight are reflections, and eight rotations are missing.
[[nodiscard]] const std::array<CubeSymmetry, 24>& tutorial_rotations();

}  // namespace kolo
