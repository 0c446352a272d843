#include <array>

#include <unistd.h>

#include <fmt/format.h>

#include "data/boxes/box_writer.h"
#include "data/boxes/hdf5_field.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

using Extent = std::array<hsize_t, 4>;

hsize_t size_of(std::int64_t size) {
  return static_cast<hsize_t>(size);
}

class Hdf5Writer final : public BoxWriter {
 public:
  Hdf5Writer(std::filesystem::path path, std::int64_t size, std::int64_t chunk,
             std::span<const std::pair<std::string, double>> parameters)
      : path_(std::move(path)),
        aside_(path_.string() + fmt::format(".{}.part", ::getpid())),
        what_(fmt::format("data: cannot write {}", aside_.string())),
        size_(size) {
    const Hdf5Session session;
    create_file();
    try {
      nbody_ = create_field("Nbody", BoxField::nbody, chunk);
      hydro_ = create_field("Hydro", BoxField::hydro, chunk);
      for (const auto& [name, value] : parameters) write_attribute(name, value);
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
  void create_file() {
    const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what_);
    // Fields begin at pages of the memory that the file is mapped to.
    check_hdf5(H5Pset_alignment(access.get(), 1 << 16, 4096), what_);
    file_ = Hdf5Handle(H5Fcreate(aside_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
                       H5Fclose, what_);
  }

  Hdf5Handle create_field(const char* name, BoxField field, std::int64_t chunk) {
    const Extent shape{size_of(channels_of(field)), size_of(size_), size_of(size_), size_of(size_)};
    const Hdf5Handle space(H5Screate_simple(4, shape.data(), nullptr), H5Sclose, what_);
    const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what_);
    check_hdf5(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), what_);  // all is written
    if (chunk > 0) {
      const auto edge = size_of(std::min(chunk, size_));
      const Extent chunks{1, edge, edge, edge};
      check_hdf5(H5Pset_chunk(creation.get(), 4, chunks.data()), what_);
    }
    return {H5Dcreate2(file_.get(), name, H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, creation.get(),
                       H5P_DEFAULT),
            H5Dclose, what_};
  }

  void write_attribute(const std::string& name, double value) {
    const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose, what_);
    Hdf5Handle attribute(H5Acreate2(file_.get(), name.c_str(), H5T_IEEE_F64LE, space.get(),
                                    H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose, what_);
    check_hdf5(H5Awrite(attribute.get(), H5T_NATIVE_DOUBLE, &value), what_);
    attribute.close(what_);
  }

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

std::unique_ptr<BoxWriter> make_hdf5_writer(
    const std::filesystem::path& file, std::int64_t size, std::int64_t chunk,
    std::span<const std::pair<std::string, double>> parameters) {
  if (chunk < 0 || chunk > 512) {
    throw InputError(fmt::format(
        "data: chunks of {}^3 cells, expected 1 to 512, or 0 for a contiguous layout", chunk));
  }
  return std::make_unique<Hdf5Writer>(file, size, chunk, parameters);
}

}  // namespace kolo
