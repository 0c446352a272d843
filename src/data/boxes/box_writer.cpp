#include "kolo/data/box_files.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file_failure.h"
#include "data/boxes/field_source.h"
#include "data/boxes/hdf5.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

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

// Writes the head of a .npy file aside; the place of the numbers is behind it.
HydroTarget begin_npy(AtomicFile& aside, const fs::path& file, BoxField field, std::int64_t size) {
  const auto channels = channels_of(field);
  const auto head = npy_header_bytes(std::array{size, size, size, channels});
  aside.write(head);
  return {unfinished_file(file), BoxFormat::npy, std::ssize(head), size, channels};
}

// Gives a new HDF5 file its attributes. `what` begins messages.
using WriteAttributes = std::function<void(const Hdf5Handle& file, const std::string& what)>;

// Makes an HDF5 file of contiguous arrays, and returns their places in bytes.
std::vector<std::int64_t> make_hdf5(const fs::path& file, std::span<const FloatArray> arrays,
                                    const WriteAttributes& write_attributes) {
  const auto what = problem_with(file);
  const Hdf5Session session;
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what);
  // Arrays begin at pages of the memory that the file is mapped to.
  check_hdf5(H5Pset_alignment(access.get(), 1 << 16, 4096), what);
  // The layout of HDF5 1.8 has room for attributes above 64 KiB.
  check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), what);
  const Hdf5Handle root(H5Pcreate(H5P_FILE_CREATE), H5Pclose, what);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  for (const auto* const object : {&root, &creation})  // the same numbers make the same file
    check_hdf5(H5Pset_obj_track_times(object->get(), false), what);
  Hdf5Handle hdf5(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, root.get(), access.get()), H5Fclose, what);
  check_hdf5(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), what);  // all is written
  check_hdf5(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), what);
  const Hdf5Handle link(H5Pcreate(H5P_LINK_CREATE), H5Pclose, what);
  check_hdf5(H5Pset_create_intermediate_group(link.get(), 1), what);  // of "run/targets"
  std::vector<std::int64_t> places;
  for (const auto& [name, lengths] : arrays) {
    const std::vector<hsize_t> shape(lengths.begin(), lengths.end());
    const Hdf5Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                           H5Sclose, what);
    Hdf5Handle dataset(H5Dcreate2(hdf5.get(), name.c_str(), H5T_IEEE_F32LE, space.get(), link.get(),
                                  creation.get(), H5P_DEFAULT),
                       H5Dclose, what);
    const auto offset = H5Dget_offset(dataset.get());
    if (offset == HADDR_UNDEF)
      throw Error(fmt::format("{}: the dataset {} has no place in the file", what, name));
    places.push_back(narrow<std::int64_t>(offset));
    dataset.close(what);
  }
  if (write_attributes) write_attributes(hdf5, what);
  hdf5.close(what);
  return places;
}

// Makes an HDF5 file aside and returns the places of its fields, whose numbers are then written
// without the library.
std::vector<HydroTarget> begin_hdf5(const fs::path& file, std::span<const BoxField> fields,
                                    std::int64_t size, const WriteAttributes& write_attributes) {
  const auto aside = unfinished_file(file);
  std::vector<FloatArray> arrays;
  for (const auto field : fields)
    arrays.push_back({hdf5_name_of(field), {channels_of(field), size, size, size}});
  const auto offsets = make_hdf5(aside, arrays, write_attributes);
  std::vector<HydroTarget> places;
  for (std::size_t i = 0; i < fields.size(); ++i)
    places.push_back({aside, BoxFormat::hdf5, offsets[i], size, channels_of(fields[i])});
  return places;
}

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

// Writes the fields of a box to their places.
void write_fields(const SimulationBox& box, std::span<const HydroTarget> places) {
  const Region whole{{0, 0, 0}, {box.size, box.size, box.size}};
  HydroWriter(places[0]).write(whole, box.nbody);
  HydroWriter(places[1]).write(whole, box.hydro);
}

}  // namespace

std::vector<std::int64_t> make_hdf5_arrays(const fs::path& file,
                                           std::span<const FloatArray> arrays) {
  return make_hdf5(file, arrays, {});
}

void write_box_npy(const SimulationBox& box, const fs::path& prefix) {
  const auto data_file = npy_data_file(prefix), label_file = npy_label_file(prefix);
  AtomicFile data(data_file), label(label_file);
  const std::array places{begin_npy(data, data_file, BoxField::nbody, box.size),
                          begin_npy(label, label_file, BoxField::hydro, box.size)};
  write_fields(box, places);
  data.commit();
  label.commit();
}

void write_box_hdf5(const SimulationBox& box, const fs::path& file) {
  AtomicFile aside(file);
  write_fields(box, begin_hdf5(file, both_fields, box.size,
                               [&](const Hdf5Handle& hdf5, const std::string& what) {
                                 for (const auto& [name, value] : box.parameters)
                                   write_number(hdf5, name, value, what);
                               }));
  aside.commit();
}

namespace {

void refuse_output(const BoxFile& box, const fs::path& file, bool replaces) {
  std::error_code error;
  for (const auto field : both_fields) {
    if (!fs::equivalent(file, box.layout(field).file, error) || error) continue;
    throw InputError(
        fmt::format("data: {} is what is read, so it can't be written", file.string()));
  }
  if (!replaces && fs::exists(fs::symlink_status(file, error)))
    throw InputError(fmt::format("data: {} is there already; --force replaces it", file.string()));
}

constexpr std::int64_t buffer_bytes = std::int64_t{1} << 26;

// Copies both fields, some planes at a time.
void copy_fields(const BoxFile& box, std::span<const HydroTarget> places,
                 const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const auto size = box.size(), multiple = box.plane_multiple();
  const auto fitting = buffer_bytes * size / field_bytes(hydro_channels, size);
  const auto step = std::min(size, std::max<std::int64_t>(1, fitting / multiple) * multiple);
  std::vector<float> values;
  std::int64_t done = 0;
  for (const auto field : both_fields) {
    HydroWriter writer(places[field == BoxField::nbody ? 0 : 1]);
    for (std::int64_t first = 0; first < size; first += step) {
      const auto count = std::min(step, size - first);
      values.resize(static_cast<std::size_t>(channels_of(field) * count * size * size));
      box.read_planes(field, first, count, values);
      writer.write({{first, 0, 0}, {count, size, size}}, values);
      done += count;
      if (progress) progress(done, 2 * size);
    }
  }
}

}  // namespace

void convert_box(const BoxFile& box, const fs::path& to, const ConvertBoxOptions& options) {
  const bool to_npy = options.to == BoxFormat::npy;
  const auto files = to_npy ? std::vector{npy_data_file(to), npy_label_file(to)} : std::vector{to};
  std::deque<AtomicFile> asides;
  for (const auto& file : files) {
    refuse_output(box, file, options.replace);
    asides.emplace_back(file);
  }
  std::vector<HydroTarget> places;
  if (to_npy) {
    places = {begin_npy(asides[0], files[0], BoxField::nbody, box.size()),
              begin_npy(asides[1], files[1], BoxField::hydro, box.size())};
  } else {
    places = begin_hdf5(to, both_fields, box.size(), [&](const auto& file, const auto& what) {
      if (box.format() == BoxFormat::hdf5)
        copy_hdf5_attributes(box.layout(BoxField::nbody).file, file, what);
    });
  }
  copy_fields(box, places, options.progress);
  for (auto& aside : asides) aside.commit();
}

namespace {

// Removes files of killed processes: a living one is of this machine, or has locked its file.
void remove_leftovers(const fs::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const auto own = path.filename().string();
  std::error_code ignored;  // what can't be removed is in nobody's way
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto name = entry.path().filename().string();
    if (!is_unfinished_file(name, own)) continue;
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
  const auto bytes = field_bytes(hydro_channels, size);
  std::error_code error;
  const auto space = fs::space(unfinished_file(file), error);
  if (!error && std::cmp_less(space.available, bytes)) {
    throw Error(fmt::format("{}: a gas field of {}^3 cells takes {} bytes, and there are {} left",
                            problem_with(file), size, bytes, space.available));
  }
  if (file.extension() == ".npy") {
    target_ = begin_npy(aside_, file, BoxField::hydro, size);
  } else {
    const auto copy_attributes = [&](const Hdf5Handle& hdf5, const std::string& what) {
      if (!attributes_of.empty()) copy_hdf5_attributes(attributes_of, hdf5, what);
    };
    target_ = begin_hdf5(file, std::array{BoxField::hydro}, size, copy_attributes).front();
  }
  const auto whole = checked_add(target_.offset, bytes);
  if (std::cmp_less(fs::file_size(target_.file), whole))
    fs::resize_file(target_.file, static_cast<std::uintmax_t>(whole), error);
  if (error) throw Error(fmt::format("{}: {}", problem_with(target_.file), error.message()));
  lock_ = FileDescriptor(::open(target_.file.c_str(), O_RDWR | O_CLOEXEC));
  if (!lock_.is_open()) fail(target_.file);
  // A file system that knows no locks only keeps leftovers of other machines from being told apart.
  static_cast<void>(lock_file(lock_));
}

void HydroFile::commit() {
  aside_.commit();
  lock_ = FileDescriptor();  // which would keep HDF5 from opening it
}

HydroWriter::HydroWriter(HydroTarget place)
    : target_(std::move(place)), file_(::open(target_.file.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (!file_.is_open()) fail(target_.file);
}

void HydroWriter::write(const Region& region, std::span<const float> values) {
  require_region(region, target_.size, target_.channels, values.size());
  if (target_.format == BoxFormat::npy)
    write_cells(region, values);
  else
    write_channels(region, values);
}

void HydroWriter::flush() const {
  if (::fsync(file_.get()) != 0) fail(target_.file);
}

// Rows, or whole planes of them where the region is as wide as the box.
void HydroWriter::write_channels(const Region& region, std::span<const float> values) {
  const auto size = target_.size, channels = target_.channels;
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
  const auto size = target_.size, channels = target_.channels;
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
  const auto place = target_.offset + number * static_cast<std::int64_t>(sizeof(float));
  kolo::write_at(file_.get(), std::as_bytes(values), place, target_.file);
}

}  // namespace kolo
