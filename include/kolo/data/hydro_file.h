#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/file.h"
#include "kolo/data/box_files.h"

// A gas field on its way to disk, which several processes fill, each with regions of its own. The
// file is what box_files.h describes, with the gas alone: FILE.npy is [N, N, N, 5], any other name
// is HDF5's with the root dataset Hydro [5, N, N, N].
//
// Numbers are written where they belong in a file that has its full size from the beginning, also
// in HDF5's, whose contiguous dataset has its place at once: that needs neither an HDF5 library
// with MPI nor processes that wait for each other, and a full disk is an error of a call rather
// than a signal, as it would be in mapped memory.
namespace kolo {

// Where the numbers go: what a process that is to write some has to be told.
struct HydroPlace {
  std::filesystem::path file;  // aside, until the whole is there
  BoxFormat format = BoxFormat::hdf5;
  std::int64_t offset = 0;  // bytes from the file's start to the first number
  std::int64_t size = 0;    // cells per edge
  std::int64_t channels = hydro_channels;
};

// The file as a whole, of one of the processes: made aside in the same folder with numbers that are
// not yet any, it appears under its name with commit(), and vanishes without. What a process that
// was killed has left aside is removed by the next one that writes a file of that name.
class HydroFile {
 public:
  // `attributes_of`: an HDF5 file whose attributes this one gets, of the root and of its Hydro, if
  // it has one; .npy has none. Empty: no attributes. Error: nothing can be written there, or there
  // is no room for it.
  HydroFile(std::filesystem::path file, std::int64_t size,
            const std::filesystem::path& attributes_of = {});
  HydroFile(const HydroFile&) = delete;
  HydroFile& operator=(const HydroFile&) = delete;
  ~HydroFile();

  [[nodiscard]] const HydroPlace& place() const { return place_; }
  // What the user should know of attributes that have no place in it.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  // After everyone's flush().
  void commit();

 private:
  std::filesystem::path path_;
  HydroPlace place_;
  std::vector<std::string> left_out_;
  FileDescriptor lock_;  // of what is aside, as long as this process lives
  bool is_committed_ = false;
};

// One process's hand in it.
class HydroWriter {
 public:
  explicit HydroWriter(HydroPlace place);

  // [channels, extent]: cells that no one else writes. Error: outside of the box, or the system
  // says no.
  void write(const Region& region, std::span<const float> values);
  // What was written is on the device when it returns.
  void flush() const;

 private:
  void write_channels(const Region& region, std::span<const float> values);
  void write_cells(const Region& region, std::span<const float> values);
  void write_at(std::int64_t number, std::span<const float> values) const;

  HydroPlace place_;
  FileDescriptor file_;
  std::vector<float> cells_;  // a plane with the channels of a cell side by side
};

}  // namespace kolo
