#include "kolo/data/box_files.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "data/boxes/hdf5.h"
#include "data/boxes/hdf5_attributes.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/array_file.h"

namespace kolo {

namespace {

// A box on its way to disk, some planes at a time. It appears with commit(), or not at all.
class BoxWriter {
 public:
  virtual ~BoxWriter() = default;
  // Planes first to first + count, [channels, count, N, N].
  virtual void write_planes(BoxField field, std::int64_t first, std::int64_t count,
                            std::span<const float> values) = 0;
  virtual void commit() = 0;
};

// Writes both files aside, with their heads; numbers go where they belong.
class NpyWriter final : public BoxWriter {
 public:
  NpyWriter(const std::filesystem::path& prefix, std::int64_t size)
      : nbody_(npy_data_file(prefix), size, nbody_channels),
        hydro_(npy_label_file(prefix), size, hydro_channels),
        size_(size) {}

  void write_planes(BoxField field, std::int64_t first, std::int64_t count,
                    std::span<const float> values) override {
    (field == BoxField::nbody ? nbody_ : hydro_)
        .numbers->write({{first, 0, 0}, {count, size_, size_}}, values);
  }
  void commit() override {
    nbody_.file.commit();
    hydro_.file.commit();
  }

 private:
  struct Field {
    Field(const std::filesystem::path& path, std::int64_t size, std::int64_t channels)
        : file(path) {
      const auto head = npy_header_bytes(std::array{size, size, size, channels});
      file.write(head);
      numbers.emplace(
          HydroPlace{part_file(path), BoxFormat::npy, std::ssize(head), size, channels});
    }
    AtomicFile file;
    std::optional<HydroWriter> numbers;
  };

  Field nbody_, hydro_;
  std::int64_t size_;
};

using Hdf5Extent = std::array<hsize_t, 4>;

hsize_t size_of(std::int64_t size) {
  return static_cast<hsize_t>(size);
}

class Hdf5Writer final : public BoxWriter {
 public:
  Hdf5Writer(const std::filesystem::path& path, std::int64_t size, std::int64_t chunk)
      : aside_(path),
        what_(fmt::format("data: cannot write {}", part_file(path).string())),
        size_(size) {
    if (chunk < 0 || chunk > 512) {
      throw InputError(fmt::format(
          "data: chunks of {}^3 cells, expected 1 to 512, or 0 for a contiguous layout", chunk));
    }
    const Hdf5Session session;
    file_ = create_hdf5_file(part_file(path), what_);
    nbody_ = create_hdf5_field(file_, BoxField::nbody, size, chunk, H5D_ALLOC_TIME_DEFAULT, what_);
    hydro_ = create_hdf5_field(file_, BoxField::hydro, size, chunk, H5D_ALLOC_TIME_DEFAULT, what_);
  }

  // For attributes. Needs an Hdf5Session.
  [[nodiscard]] const Hdf5Handle& file() const { return file_; }
  // Begins messages.
  [[nodiscard]] const std::string& what() const { return what_; }

  void write_planes(BoxField field, std::int64_t first, std::int64_t count,
                    std::span<const float> values) override {
    const Hdf5Session session;
    const auto& dataset = field == BoxField::nbody ? nbody_ : hydro_;
    const Hdf5Extent start{0, size_of(first), 0, 0};
    const Hdf5Extent extent{size_of(channels_of(field)), size_of(count), size_of(size_),
                            size_of(size_)};
    const Hdf5Handle place(H5Dget_space(dataset.get()), H5Sclose, what_);
    check_hdf5(H5Sselect_hyperslab(place.get(), H5S_SELECT_SET, start.data(), nullptr,
                                   extent.data(), nullptr),
               what_);
    const Hdf5Handle here(H5Screate_simple(4, extent.data(), nullptr), H5Sclose, what_);
    check_hdf5(H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, here.get(), place.get(), H5P_DEFAULT,
                        values.data()),
               what_);
  }

  void commit() override {
    {
      const Hdf5Session session;
      nbody_.close(what_);
      hydro_.close(what_);
      file_.close(what_);
    }
    aside_.commit();
  }

 private:
  AtomicFile aside_;  // vanishes after the library has closed it
  std::string what_;
  std::int64_t size_;
  Hdf5Handle file_, nbody_, hydro_;
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
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
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
  const auto multiple = std::max(box.plane_multiple(), std::int64_t{1});
  const auto step = std::min(size, std::max<std::int64_t>(1, fitting / multiple) * multiple);
  std::vector<float> values;
  std::int64_t done = 0;
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
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

void refuse_existing(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return;
  throw InputError(fmt::format("data: {} is there already; --force replaces it", file.string()));
}

bool is_same_file(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code error;
  return std::filesystem::equivalent(one, other, error) && !error;
}

}  // namespace

Hdf5Handle create_hdf5_file(const std::filesystem::path& path, const std::string& what) {
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what);
  // Fields begin at pages of the memory that the file is mapped to.
  check_hdf5(H5Pset_alignment(access.get(), 1 << 16, 4096), what);
  // The layout of HDF5 1.8 has room for attributes above 64 KiB.
  check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), what);
  return {H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose, what};
}

Hdf5Handle create_hdf5_field(const Hdf5Handle& file, BoxField field, std::int64_t size,
                             std::int64_t chunk, H5D_alloc_time_t place, const std::string& what) {
  const auto edge = size_of(size);
  const Hdf5Extent shape{size_of(channels_of(field)), edge, edge, edge};
  const Hdf5Handle space(H5Screate_simple(4, shape.data(), nullptr), H5Sclose, what);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  check_hdf5(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), what);  // all is written
  check_hdf5(H5Pset_alloc_time(creation.get(), place), what);
  if (chunk > 0) {
    const auto length = size_of(std::min(chunk, size));
    const Hdf5Extent chunks{1, length, length, length};
    check_hdf5(H5Pset_chunk(creation.get(), 4, chunks.data()), what);
  }
  return {H5Dcreate2(file.get(), hdf5_name_of(field), H5T_IEEE_F32LE, space.get(), H5P_DEFAULT,
                     creation.get(), H5P_DEFAULT),
          H5Dclose, what};
}

void write_box_npy(const SimulationBox& box, const std::filesystem::path& prefix) {
  check_fields(box);
  NpyWriter writer(prefix, box.size);
  write_box(writer, box);
}

void write_box_hdf5(const SimulationBox& box, const std::filesystem::path& file,
                    std::int64_t chunk) {
  check_fields(box);
  Hdf5Writer writer(file, box.size, chunk);
  {
    const Hdf5Session session;
    for (const auto& [name, value] : box.parameters)
      write_number(writer.file(), name, value, writer.what());
  }
  write_box(writer, box);
}

std::vector<std::string> convert_box(const BoxFile& box, const std::filesystem::path& to,
                                     const ConvertBoxOptions& options) {
  const bool to_npy = options.to == BoxFormat::npy;
  const auto files = to_npy ? std::vector{npy_data_file(to), npy_label_file(to)} : std::vector{to};
  for (const auto& file : files) {
    for (const auto field : {BoxField::nbody, BoxField::hydro}) {
      if (!is_same_file(file, box.layout(field).file)) continue;
      throw InputError(
          fmt::format("data: {} is what is read, so it can't be written", file.string()));
    }
    if (!options.replace) refuse_existing(file);
  }
  const auto& from = box.layout(BoxField::nbody).file;
  const bool may_have_attributes = box.format() == BoxFormat::hdf5;
  std::vector<std::string> left_out;
  std::unique_ptr<BoxWriter> writer;
  if (to_npy) {
    writer = std::make_unique<NpyWriter>(to, box.size());
    if (may_have_attributes) left_out = leave_hdf5_attributes(from);
  } else {
    auto hdf5 = std::make_unique<Hdf5Writer>(to, box.size(), 0);
    const Hdf5Session session;
    if (may_have_attributes) left_out = copy_hdf5_attributes(from, hdf5->file(), hdf5->what());
    writer = std::move(hdf5);
  }
  if (may_have_attributes)
    std::ranges::move(leave_other_objects(from), std::back_inserter(left_out));
  copy_box(box, *writer, options);
  return left_out;
}

}  // namespace kolo
