#include "kolo/data/box_files.h"

#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file_failure.h"
#include "data/boxes/field_source.h"
#include "data/boxes/hdf5.h"
#include "data/boxes/hdf5_attributes.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/data/array_file.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// Name that no part of an AtomicFile has: those aren't locked.
fs::path shared_name(const fs::path& file) {
  return file.string() + ".shared";
}

std::string problem_with(const fs::path& file) {
  return fmt::format("data: cannot write {}", file.string());
}

[[noreturn]] void fail(const fs::path& file) {
  const int reason = errno;
  throw Error(system_error_text(problem_with(file), reason) + advice_on_file_size(reason));
}

// Removes what killed processes have left: a living one has locked its file.
void remove_leftovers(const fs::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code ignored;  // what can't be removed is in nobody's way
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (!is_part_file(entry.path().filename().string(), shared_name(path.filename()).string()))
      continue;
    const FileDescriptor file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (file.is_open() && lock_file(file) == 0) fs::remove(entry.path(), ignored);
  }
}

std::int64_t bytes_of(std::int64_t size) {
  const std::array shape{hydro_channels, size, size, size,
                         static_cast<std::int64_t>(sizeof(float))};
  return checked_product(std::span<const std::int64_t>(shape));
}

void require_room(const fs::path& path, std::int64_t size) {
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  const auto space = fs::space(folder, error);
  if (error || std::cmp_greater_equal(space.available, bytes_of(size))) return;
  throw Error(fmt::format("{}: a gas field of {}^3 cells takes {} bytes, and there are {} left",
                          problem_with(path), size, bytes_of(size), space.available));
}

std::int64_t create_npy(const fs::path& file, std::int64_t size) {
  const auto header = npy_header_bytes(std::array{size, size, size, hydro_channels});
  FileDescriptor descriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!descriptor.is_open()) fail(file);
  write_all(descriptor.get(), std::as_bytes(std::span(header)), file);
  descriptor.close(file);
  return static_cast<std::int64_t>(header.size());
}

std::int64_t create_hdf5(const fs::path& file, std::int64_t size, const fs::path& attributes_of,
                         std::vector<std::string>& left_out) {
  const auto what = problem_with(file);
  const Hdf5Session session;
  auto hdf5 = create_hdf5_file(file, what);
  auto dataset = create_hdf5_field(hdf5, BoxField::hydro, size, 0, H5D_ALLOC_TIME_EARLY, what);
  if (!attributes_of.empty()) left_out = copy_hdf5_attributes(attributes_of, hdf5, what);
  const auto offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF)
    throw Error(fmt::format("{}: the dataset Hydro has no place in the file", what));
  dataset.close(what);
  hdf5.close(what);
  return narrow<std::int64_t>(offset);
}

}  // namespace

HydroFile::HydroFile(fs::path file, std::int64_t size, const fs::path& attributes_of)
    : path_(std::move(file)) {
  remove_leftovers(path_);
  require_room(path_, size);
  place_.file = part_file(shared_name(path_));
  place_.format = path_.extension() == ".npy" ? BoxFormat::npy : BoxFormat::hdf5;
  place_.size = size;
  try {
    const bool is_npy = place_.format == BoxFormat::npy;
    place_.offset = is_npy ? create_npy(place_.file, size)
                           : create_hdf5(place_.file, size, attributes_of, left_out_);
    if (is_npy && !attributes_of.empty()) left_out_ = leave_hdf5_attributes(attributes_of);
    const auto whole = checked_add(place_.offset, bytes_of(size));
    std::error_code error;
    if (std::cmp_less(fs::file_size(place_.file), whole))
      fs::resize_file(place_.file, static_cast<std::uintmax_t>(whole), error);
    if (error) throw Error(fmt::format("{}: {}", problem_with(place_.file), error.message()));
    lock_ = FileDescriptor(::open(place_.file.c_str(), O_RDWR | O_CLOEXEC));
    if (!lock_.is_open()) fail(place_.file);
    // A file system that knows no locks only keeps leftovers from being told apart.
    static_cast<void>(lock_file(lock_));
  } catch (...) {
    std::error_code ignored;
    fs::remove(place_.file, ignored);
    throw;
  }
}

HydroFile::~HydroFile() {
  std::error_code ignored;  // nobody to tell, and the file is not needed
  if (!is_committed_) fs::remove(place_.file, ignored);
}

void HydroFile::commit() {
  flush_to_disk(place_.file);
  rename_durably(place_.file, path_);
  is_committed_ = true;
  lock_ = FileDescriptor();  // which would keep HDF5 from opening it
}

HydroWriter::HydroWriter(HydroPlace place)
    : place_(std::move(place)), file_(::open(place_.file.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (!file_.is_open()) fail(place_.file);
}

void HydroWriter::write(const Region& region, std::span<const float> values) {
  require_region(region, place_.size, place_.channels, values.size());
  if (place_.format == BoxFormat::npy)
    write_cells(region, values);
  else
    write_channels(region, values);
}

void HydroWriter::flush() const {
  if (::fsync(file_.get()) != 0) fail(place_.file);
}

// Rows, or whole planes of them where the region is as wide as the box.
void HydroWriter::write_channels(const Region& region, std::span<const float> values) {
  const auto size = place_.size, channels = place_.channels;
  const auto& [start, extent] = region;
  const auto rows = extent[2] == size ? extent[1] : std::int64_t{1};
  const auto count = static_cast<std::size_t>(rows * extent[2]);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (auto i = start[0]; i < start[0] + extent[0]; ++i) {
      for (auto j = start[1]; j < start[1] + extent[1]; j += rows) {
        write_at(((channel * size + i) * size + j) * size + start[2], values.first(count));
        values = values.subspan(count);
      }
    }
  }
}

void HydroWriter::write_cells(const Region& region, std::span<const float> values) {
  const auto size = place_.size, channels = place_.channels;
  const auto& [start, extent] = region;
  const auto cells = extent[1] * extent[2];
  const auto rows = extent[2] == size ? extent[1] : std::int64_t{1};
  const auto count = static_cast<std::size_t>(rows * extent[2] * channels);
  cells_.resize(static_cast<std::size_t>(cells * channels));
  for (std::int64_t i = 0; i < extent[0]; ++i) {
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const float* const from = values.data() + (channel * extent[0] + i) * cells;
      for (std::int64_t cell = 0; cell < cells; ++cell)
        cells_[static_cast<std::size_t>(cell * channels + channel)] = from[cell];
    }
    for (std::int64_t j = 0; j < extent[1]; j += rows) {
      const auto cell = ((start[0] + i) * size + start[1] + j) * size + start[2];
      const auto from = static_cast<std::size_t>(j * extent[2] * channels);
      write_at(cell * channels, std::span(cells_).subspan(from, count));
    }
  }
}

// From the field's number `number` on.
void HydroWriter::write_at(std::int64_t number, std::span<const float> values) const {
  auto bytes = std::as_bytes(values);
  auto at = place_.offset + number * static_cast<std::int64_t>(sizeof(float));
  while (!bytes.empty()) {
    const auto written = ::pwrite(file_.get(), bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(place_.file);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    at += written;
  }
}

}  // namespace kolo
