#include "kolo/data/box_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <functional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file_failure.h"
#include "data/boxes/field_source.h"
#include "data/boxes/hdf5.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/data/array_file.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr std::array both_fields{BoxField::nbody, BoxField::hydro};

std::string problem_with(const fs::path& file) {
  return fmt::format("data: cannot write {}", file.string());
}

[[noreturn]] void fail(const fs::path& file) {
  const int reason = errno;
  throw Error(system_error_text(problem_with(file), reason) + advice_on_file_size(reason));
}

std::int64_t bytes_of(std::int64_t channels, std::int64_t size) {
  const std::array shape{channels, size, size, size, static_cast<std::int64_t>(sizeof(float))};
  return checked_product(std::span<const std::int64_t>(shape));
}

// Writes the head of a .npy file aside; the place of the numbers is behind it.
HydroPlace begin_npy(AtomicFile& aside, const fs::path& file, BoxField field, std::int64_t size) {
  const auto channels = channels_of(field);
  const auto head = npy_header_bytes(std::array{size, size, size, channels});
  aside.write(head);
  return {part_file(file), BoxFormat::npy, std::ssize(head), size, channels};
}

// Gives a new HDF5 file its attributes. `what` begins messages.
using WriteAttributes = std::function<void(const Hdf5Handle& file, const std::string& what)>;

// Makes an HDF5 file aside whose fields have their places, which are returned, before there are any
// numbers: these are written without the library.
std::vector<HydroPlace> begin_hdf5(const fs::path& file, std::span<const BoxField> fields,
                                   std::int64_t size, const WriteAttributes& write_attributes) {
  const auto aside = part_file(file);
  const auto what = problem_with(aside);
  const Hdf5Session session;
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what);
  // Fields begin at pages of the memory that the file is mapped to.
  check_hdf5(H5Pset_alignment(access.get(), 1 << 16, 4096), what);
  // The layout of HDF5 1.8 has room for attributes above 64 KiB.
  check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), what);
  Hdf5Handle hdf5(H5Fcreate(aside.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose,
                  what);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  check_hdf5(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), what);  // all is written
  check_hdf5(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), what);
  std::vector<HydroPlace> places;
  for (const auto field : fields) {
    const auto edge = static_cast<hsize_t>(size);
    const auto channels = channels_of(field);
    const std::array<hsize_t, 4> shape{static_cast<hsize_t>(channels), edge, edge, edge};
    const Hdf5Handle space(H5Screate_simple(4, shape.data(), nullptr), H5Sclose, what);
    Hdf5Handle dataset(H5Dcreate2(hdf5.get(), hdf5_name_of(field), H5T_IEEE_F32LE, space.get(),
                                  H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                       H5Dclose, what);
    const auto offset = H5Dget_offset(dataset.get());
    if (offset == HADDR_UNDEF) {
      throw Error(
          fmt::format("{}: the dataset {} has no place in the file", what, hdf5_name_of(field)));
    }
    places.push_back({aside, BoxFormat::hdf5, narrow<std::int64_t>(offset), size, channels});
    dataset.close(what);
  }
  write_attributes(hdf5, what);
  hdf5.close(what);
  return places;
}

// A box on its way to disk, some planes at a time. It appears with commit(), or not at all.
class BoxWriter {
 public:
  // `to`: an HDF5 file, or the prefix of a .npy pair, which has no attributes.
  BoxWriter(const fs::path& to, BoxFormat format, std::int64_t size,
            const WriteAttributes& write_attributes)
      : size_(size) {
    if (format == BoxFormat::hdf5) {
      files_.emplace_back(to);
      for (auto& place : begin_hdf5(to, both_fields, size, write_attributes))
        writers_.emplace_back(std::move(place));
      return;
    }
    for (const auto field : both_fields) {
      const auto file = field == BoxField::nbody ? npy_data_file(to) : npy_label_file(to);
      writers_.emplace_back(begin_npy(files_.emplace_back(file), file, field, size));
    }
  }

  // Planes first to first + count, [channels, count, N, N].
  void write_planes(BoxField field, std::int64_t first, std::int64_t count,
                    std::span<const float> values) {
    writers_[field == BoxField::nbody ? 0 : 1].write({{first, 0, 0}, {count, size_, size_}},
                                                     values);
  }
  void commit() {
    for (auto& file : files_) file.commit();
  }

 private:
  std::deque<AtomicFile> files_;
  std::vector<HydroWriter> writers_;
  std::int64_t size_;
};

// An attribute of the root.
void write_number(const Hdf5Handle& file, const std::string& name, double value,
                  const std::string& what) {
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose, what);
  Hdf5Handle attribute(
      H5Acreate2(file.get(), name.c_str(), H5T_IEEE_F64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose, what);
  check_hdf5(H5Awrite(attribute.get(), H5T_NATIVE_DOUBLE, &value), what);
  attribute.close(what);
}

constexpr std::int64_t buffer_bytes = std::int64_t{1} << 26;

void check_fields(const SimulationBox& box) {
  const auto size = box.size;
  for (const auto field : both_fields) {
    const auto& values = field == BoxField::nbody ? box.nbody : box.hydro;
    const std::array dimensions{channels_of(field), size, size, size};
    const auto expected = checked_product(std::span<const std::int64_t>(dimensions));
    if (size >= 1 && std::cmp_equal(values.size(), expected)) continue;
    throw Error(fmt::format("data: the {} field of a box of {}^3 cells has {} numbers, expected {}",
                            field == BoxField::nbody ? "dark matter" : "gas", size, values.size(),
                            expected));
  }
}

// Writes a box in memory, and commits.
void write_box(BoxWriter& writer, const SimulationBox& box) {
  writer.write_planes(BoxField::nbody, 0, box.size, box.nbody);
  writer.write_planes(BoxField::hydro, 0, box.size, box.hydro);
  writer.commit();
}

// Copies both fields, some planes at a time, and commits.
void copy_box(const BoxFile& box, BoxWriter& writer, const ConvertBoxOptions& options) {
  const auto size = box.size();
  const auto plane_bytes =
      checked_multiply(checked_multiply(size, size), static_cast<std::int64_t>(sizeof(float)));
  const auto fitting = buffer_bytes / checked_multiply(hydro_channels, plane_bytes);
  const auto multiple = box.plane_multiple();
  const auto step = std::min(size, std::max<std::int64_t>(1, fitting / multiple) * multiple);
  std::vector<float> values;
  std::int64_t done = 0;
  for (const auto field : both_fields) {
    for (std::int64_t first = 0; first < size; first += step) {
      const auto count = std::min(step, size - first);
      values.resize(static_cast<std::size_t>(channels_of(field) * count * size * size));
      box.read_planes(field, first, count, values);
      writer.write_planes(field, first, count, values);
      done += count;
      if (options.progress) options.progress(done, 2 * size);
    }
  }
  writer.commit();
}

void refuse_existing(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(file, ignored))) return;
  throw InputError(fmt::format("data: {} is there already; --force replaces it", file.string()));
}

bool is_same_file(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return fs::equivalent(one, other, error) && !error;
}

}  // namespace

void write_box_npy(const SimulationBox& box, const fs::path& prefix) {
  check_fields(box);
  BoxWriter writer(prefix, BoxFormat::npy, box.size, {});
  write_box(writer, box);
}

void write_box_hdf5(const SimulationBox& box, const fs::path& file) {
  check_fields(box);
  BoxWriter writer(file, BoxFormat::hdf5, box.size,
                   [&](const Hdf5Handle& hdf5, const std::string& what) {
                     for (const auto& [name, value] : box.parameters)
                       write_number(hdf5, name, value, what);
                   });
  write_box(writer, box);
}

void convert_box(const BoxFile& box, const fs::path& to, const ConvertBoxOptions& options) {
  const bool to_npy = options.to == BoxFormat::npy;
  const auto files = to_npy ? std::vector{npy_data_file(to), npy_label_file(to)} : std::vector{to};
  for (const auto& file : files) {
    for (const auto field : both_fields) {
      if (!is_same_file(file, box.layout(field).file)) continue;
      throw InputError(
          fmt::format("data: {} is what is read, so it can't be written", file.string()));
    }
    if (!options.replace) refuse_existing(file);
  }
  const auto& from = box.layout(BoxField::nbody).file;
  BoxWriter writer(to, options.to, box.size(),
                   [&](const Hdf5Handle& hdf5, const std::string& what) {
                     if (box.format() == BoxFormat::hdf5) copy_hdf5_attributes(from, hdf5, what);
                   });
  copy_box(box, writer, options);
}

namespace {

// Removes what killed processes have left: a living one is of this machine, or has locked its file.
void remove_leftovers(const fs::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const auto own = path.filename().string();
  std::error_code ignored;  // what can't be removed is in nobody's way
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto name = entry.path().filename().string();
    if (!is_part_file(name, own)) continue;
    const auto process = static_cast<pid_t>(std::atol(name.c_str() + own.size() + 1));
    if (::kill(process, 0) == 0 || errno != ESRCH) continue;
    const FileDescriptor file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (file.is_open() && lock_file(file) == 0) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

HydroFile::HydroFile(const fs::path& file, std::int64_t size, const fs::path& attributes_of)
    : aside_(file) {
  remove_leftovers(file);
  const auto bytes = bytes_of(hydro_channels, size);
  std::error_code error;
  const auto space = fs::space(part_file(file), error);
  if (!error && std::cmp_less(space.available, bytes)) {
    throw Error(fmt::format("{}: a gas field of {}^3 cells takes {} bytes, and there are {} left",
                            problem_with(file), size, bytes, space.available));
  }
  if (file.extension() == ".npy") {
    place_ = begin_npy(aside_, file, BoxField::hydro, size);
  } else {
    const auto copy_attributes = [&](const Hdf5Handle& hdf5, const std::string& what) {
      if (!attributes_of.empty()) copy_hdf5_attributes(attributes_of, hdf5, what);
    };
    place_ = begin_hdf5(file, std::array{BoxField::hydro}, size, copy_attributes).front();
  }
  const auto whole = checked_add(place_.offset, bytes);
  if (std::cmp_less(fs::file_size(place_.file), whole))
    fs::resize_file(place_.file, static_cast<std::uintmax_t>(whole), error);
  if (error) throw Error(fmt::format("{}: {}", problem_with(place_.file), error.message()));
  lock_ = FileDescriptor(::open(place_.file.c_str(), O_RDWR | O_CLOEXEC));
  if (!lock_.is_open()) fail(place_.file);
  // A file system that knows no locks only keeps leftovers of other machines from being told apart.
  static_cast<void>(lock_file(lock_));
}

void HydroFile::commit() {
  aside_.commit();
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
