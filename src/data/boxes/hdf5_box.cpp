#include <algorithm>
#include <array>

#include <unistd.h>

#include <fmt/format.h>

#include "data/boxes/field_source.h"
#include "data/boxes/hdf5_dataset.h"
#include "data/boxes/hdf5_field.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

// Whether the file has bytes before HDF5's own, for which versions of the library count addresses
// differently.
bool has_user_block(const Hdf5Handle& file, const std::string& what) {
  const Hdf5Handle creation(H5Fget_create_plist(file.get()), H5Pclose, what);
  hsize_t bytes = 0;
  check_hdf5(H5Pget_userblock(creation.get(), &bytes), what);
  return bytes > 0;
}

// Why a field can't be read where it lies in the file.
std::string obstacle(const BoxFieldLayout& layout) {
  if (layout.type != "float32") {
    return fmt::format("is {} and converted to float32", layout.type);
  }
  if (layout.filters.empty()) return "does not lie in the file as it does in memory";
  std::string names;
  for (const auto& filter : layout.filters) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", filter);
  }
  return fmt::format("is packed ({})", names);
}

void warn(const BoxFieldLayout& layout, const char* name, std::vector<std::string>& warnings) {
  if (layout.is_mapped) return;
  warnings.push_back(
      fmt::format("data: {} of {} {}, so one thread at a time reads it; kolo data convert makes a "
                  "file that all threads read",
                  name, layout.file.string(), obstacle(layout)));
}

}  // namespace

OpenBox open_hdf5_box(const std::filesystem::path& path, BoxFields fields) {
  const auto what = fmt::format("data: cannot read {}", path.string());
  // First, since opening a pipe would wait for whoever writes to it.
  auto map = std::make_shared<const MappedFile>(path);
  OpenBox box;
  const Hdf5Session session;
  const auto file = open_hdf5_file(path);
  const bool may_map = !has_user_block(file, what);
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
    const auto* const name = field == BoxField::nbody ? "Nbody" : "Hydro";
    if (field == BoxField::hydro && fields == BoxFields::nbody) continue;
    if (fields == BoxFields::any && !has_hdf5_link(file, name) &&
        has_hdf5_link(file, field == BoxField::nbody ? "Hydro" : "Nbody")) {
      continue;
    }
    const auto field_what = fmt::format("data: cannot read {} of {}", name, path.string());
    auto found = open_hdf5_field(file, path, field);
    const auto size = found.size;
    if (field == BoxField::hydro && box.sources[0] && size != box.size) {
      throw InputError(fmt::format("{}: it has {}^3 cells and Nbody {}^3, expected as many",
                                   field_what, size, box.size));
    }
    box.size = size;
    auto offsets =
        may_map ? find_numbers(found, map->size(), field_what) : std::vector<std::int64_t>{};
    found.layout.is_mapped = !offsets.empty();
    warn(found.layout, name, box.warnings);
    auto& source = box.sources[field == BoxField::hydro];
    const auto channels = channels_of(field);
    if (offsets.empty()) {
      source = make_library_source(std::move(found), channels);
    } else if (found.layout.chunk.empty()) {
      source = make_mapped_source(map, std::move(found.layout), offsets[0], channels, size, false);
    } else {
      source =
          make_chunked_source(map, std::move(found.layout), std::move(offsets), channels, size);
    }
  }
  return box;
}

namespace {

using Extent = std::array<hsize_t, 4>;

hsize_t size_of(std::int64_t size) {
  return static_cast<hsize_t>(size);
}

class Hdf5Writer final : public BoxWriter {
 public:
  Hdf5Writer(std::filesystem::path path, std::int64_t size, std::int64_t chunk,
             const AnnotateHdf5& annotate)
      : path_(std::move(path)),
        aside_(path_.string() + fmt::format(".{}.part", ::getpid())),
        what_(fmt::format("data: cannot write {}", aside_.string())),
        size_(size) {
    const Hdf5Session session;
    file_ = create_hdf5_file(aside_, what_);
    try {
      nbody_ = create_hdf5_field(file_, {BoxField::nbody, size, chunk}, what_);
      hydro_ = create_hdf5_field(file_, {BoxField::hydro, size, chunk}, what_);
      if (annotate) annotate(file_, what_);
    } catch (...) {
      discard();
      throw;
    }
  }
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;
  ~Hdf5Writer() override {
    if (!is_committed_) discard();
  }

  void write_planes(BoxField field, std::int64_t first, std::int64_t count,
                    std::span<const float> values) override {
    const Hdf5Session session;
    const auto& dataset = field == BoxField::nbody ? nbody_ : hydro_;
    const Extent start{0, size_of(first), 0, 0};
    const Extent extent{size_of(channels_of(field)), size_of(count), size_of(size_),
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
    flush_to_disk(aside_);
    rename_durably(aside_, path_);
    is_committed_ = true;
  }

 private:
  void discard() noexcept {
    nbody_ = {};
    hydro_ = {};
    file_ = {};
    std::error_code ignored;  // nobody to tell, and the file is not needed
    std::filesystem::remove(aside_, ignored);
  }

  std::filesystem::path path_, aside_;
  std::string what_;
  std::int64_t size_;
  Hdf5Handle file_, nbody_, hydro_;
  bool is_committed_ = false;
};

}  // namespace

Hdf5Handle create_hdf5_file(const std::filesystem::path& path, const std::string& what) {
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what);
  // Fields begin at pages of the memory that the file is mapped to.
  check_hdf5(H5Pset_alignment(access.get(), 1 << 16, 4096), what);
  // The layout of HDF5 1.8 has room for attributes above 64 KiB.
  check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), what);
  return {H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose, what};
}

Hdf5Handle create_hdf5_field(const Hdf5Handle& file, const NewHdf5Field& field,
                             const std::string& what) {
  const auto edge = size_of(field.size);
  const Extent shape{size_of(channels_of(field.field)), edge, edge, edge};
  const Hdf5Handle space(H5Screate_simple(4, shape.data(), nullptr), H5Sclose, what);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  check_hdf5(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), what);  // all is written
  if (field.has_place_at_once)
    check_hdf5(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), what);
  if (field.chunk > 0) {
    const auto chunk = size_of(std::min(field.chunk, field.size));
    const Extent chunks{1, chunk, chunk, chunk};
    check_hdf5(H5Pset_chunk(creation.get(), 4, chunks.data()), what);
  }
  return {H5Dcreate2(file.get(), field.field == BoxField::nbody ? "Nbody" : "Hydro", H5T_IEEE_F32LE,
                     space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
          H5Dclose, what};
}

void write_hdf5_number(const Hdf5Handle& file, const std::string& name, double value,
                       const std::string& what) {
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose, what);
  Hdf5Handle attribute(
      H5Acreate2(file.get(), name.c_str(), H5T_IEEE_F64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose, what);
  check_hdf5(H5Awrite(attribute.get(), H5T_NATIVE_DOUBLE, &value), what);
  attribute.close(what);
}

std::unique_ptr<BoxWriter> make_hdf5_writer(const std::filesystem::path& file, std::int64_t size,
                                            std::int64_t chunk, const AnnotateHdf5& annotate) {
  if (chunk < 0 || chunk > 512) {
    throw InputError(fmt::format(
        "data: chunks of {}^3 cells, expected 1 to 512, or 0 for a contiguous layout", chunk));
  }
  return std::make_unique<Hdf5Writer>(file, size, chunk, annotate);
}

}  // namespace kolo
