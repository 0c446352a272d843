#include "data/boxes/hdf5_field.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/boxes/field_source.h"
#include "data/boxes/hdf5_dataset.h"
#include "data/boxes/number_conversion.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;  // one, as there is one library in a process
  return mutex;
}

}  // namespace

Hdf5Session::Hdf5Session() : lock_(library_mutex()) {
  if (H5Eget_auto2(H5E_DEFAULT, &print_, &print_to_) < 0 ||
      H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) {
    throw Error("data: cannot silence the HDF5 library");
  }
}

Hdf5Session::~Hdf5Session() {
  // Fails only where the constructor would have failed.
  static_cast<void>(H5Eset_auto2(H5E_DEFAULT, print_, print_to_));
}

std::string hdf5_error_text() {
  std::string text;
  const auto take = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    if (error->desc != nullptr && *error->desc != '\0') {
      *static_cast<std::string*>(out) = error->desc;
    }
    return 0;
  };
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, take, &text) < 0 || text.empty()) {
    return "the HDF5 library gives no reason";
  }
  return text;
}

Hdf5Handle::Hdf5Handle(hid_t id, herr_t (*closer)(hid_t), const std::string& what)
    : id_(id), close_(closer) {
  if (id < 0) throw Error(fmt::format("{}: {}", what, hdf5_error_text()));
}

Hdf5Handle::~Hdf5Handle() {
  if (id_ < 0) return;
  const Hdf5Session session;
  static_cast<void>(close_(id_));  // what was written is closed with close()
}

void Hdf5Handle::close(const std::string& what) {
  check_hdf5(close_(std::exchange(id_, H5I_INVALID_HID)), what);
}

void check_hdf5(herr_t status, const std::string& what) {
  if (status < 0) throw Error(fmt::format("{}: {}", what, hdf5_error_text()));
}

namespace {

constexpr const char* name_of(BoxField field) {
  return field == BoxField::nbody ? "Nbody" : "Hydro";
}

[[noreturn]] void refuse(const Hdf5Dataset& dataset, const std::string& found) {
  throw InputError(fmt::format("{}: {}", dataset.what, found));
}

// A cube of cells with the field's channels before them.
void require_cube(const Hdf5Dataset& dataset, BoxField field) {
  const std::span<const std::int64_t> shape(dataset.layout.shape);
  const auto channels = channels_of(field);
  if (shape.size() != 4)
    refuse(dataset,
           fmt::format("its rank is {}, expected 4: ({}, N, N, N)", shape.size(), channels));
  if (shape[0] != channels) {
    refuse(dataset, fmt::format("its shape is ({}), expected {} channels first", shape_text(shape),
                                channels));
  }
  if (shape[1] == 0 || shape[1] != shape[2] || shape[2] != shape[3]) {
    refuse(dataset, fmt::format("its shape is ({}), expected a cube: ({}, N, N, N)",
                                shape_text(shape), channels));
  }
  try {
    static_cast<void>(
        checked_multiply(checked_product(shape), static_cast<std::int64_t>(sizeof(double))));
  } catch (const Error&) {
    refuse(dataset, fmt::format("its shape ({}) overflows 64 bits", shape_text(shape)));
  }
}

std::int64_t bytes_of(const std::vector<std::int64_t>& shape) {
  return checked_multiply(checked_product(std::span<const std::int64_t>(shape)),
                          static_cast<std::int64_t>(sizeof(float)));
}

// An offset of so many bytes within a file, or none.
bool lies_within(haddr_t offset, std::int64_t bytes, std::int64_t file_size) {
  return offset != HADDR_UNDEF && std::in_range<std::int64_t>(offset) &&
         static_cast<std::int64_t>(offset) <= file_size - bytes;
}

std::vector<std::int64_t> find_contiguous(const Hdf5Field& field, std::int64_t file_size,
                                          const std::string& what) {
  const auto offset = H5Dget_offset(field.dataset.get());
  if (offset == HADDR_UNDEF) return {};
  if (!lies_within(offset, bytes_of(field.layout.shape), file_size)) {
    throw InputError(
        fmt::format("{}: truncated: its {} bytes begin at offset {}, the file has {} bytes", what,
                    bytes_of(field.layout.shape), offset, file_size));
  }
  return {static_cast<std::int64_t>(offset)};
}

// Chunks in the order of their places. H5Dget_chunk_info_by_coord looks each up in a tree, where
// H5Dget_chunk_info would walk all before it.
std::vector<std::int64_t> find_chunks(const Hdf5Field& field, std::int64_t file_size,
                                      const std::string& what) {
  const auto& shape = field.layout.shape;
  const auto& chunk = field.layout.chunk;
  const auto chunk_bytes = bytes_of(chunk);
  std::vector<std::int64_t> offsets;
  for (std::int64_t c = 0; c < shape[0]; c += chunk[0]) {
    for (std::int64_t i = 0; i < shape[1]; i += chunk[1]) {
      for (std::int64_t j = 0; j < shape[2]; j += chunk[2]) {
        for (std::int64_t k = 0; k < shape[3]; k += chunk[3]) {
          const std::array place{static_cast<hsize_t>(c), static_cast<hsize_t>(i),
                                 static_cast<hsize_t>(j), static_cast<hsize_t>(k)};
          unsigned filter_mask = 0;
          haddr_t offset = HADDR_UNDEF;
          hsize_t bytes = 0;
          check_hdf5(H5Dget_chunk_info_by_coord(field.dataset.get(), place.data(), &filter_mask,
                                                &offset, &bytes),
                     what);
          if (offset == HADDR_UNDEF || std::cmp_not_equal(bytes, chunk_bytes)) return {};
          if (!lies_within(offset, chunk_bytes, file_size)) {
            throw InputError(fmt::format(
                "{}: truncated: a chunk of {} bytes begins at offset {}, the file has {} bytes",
                what, chunk_bytes, offset, file_size));
          }
          offsets.push_back(static_cast<std::int64_t>(offset));
        }
      }
    }
  }
  return offsets;
}

class LibrarySource final : public FieldSource {
 public:
  LibrarySource(Hdf5Field field, std::int64_t channels)
      : FieldSource(std::move(field.layout), channels, field.size),
        dataset_(std::move(field.dataset)),
        is_double_(field.is_double) {}

  FieldView view(const Region& region, std::vector<float>& scratch) const override {
    const auto extent_of = [](std::int64_t size) { return static_cast<hsize_t>(size); };
    const auto& [start, extent] = region;
    const std::array first{hsize_t{0}, extent_of(start[0]), extent_of(start[1]),
                           extent_of(start[2])};
    const std::array count{extent_of(channels()), extent_of(extent[0]), extent_of(extent[1]),
                           extent_of(extent[2])};
    scratch.resize(static_cast<std::size_t>(channels() * region.cells()));
    const auto what = fmt::format("data: cannot read {} at cell ({})", layout().file.string(),
                                  shape_text(std::span<const std::int64_t>(start)));
    const Hdf5Session session;
    const Hdf5Handle there(H5Dget_space(dataset_.get()), H5Sclose, what);
    check_hdf5(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, first.data(), nullptr, count.data(),
                                   nullptr),
               what);
    const Hdf5Handle here(H5Screate_simple(4, count.data(), nullptr), H5Sclose, what);
    std::vector<double> doubles(is_double_ ? scratch.size() : 0);
    void* const to = is_double_ ? static_cast<void*>(doubles.data()) : scratch.data();
    if (H5Dread(dataset_.get(), is_double_ ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT, here.get(),
                there.get(), H5P_DEFAULT, to) < 0) {
      throw InputError(fmt::format("{}: {}", what, hdf5_error_text()));
    }
    if (is_double_ && convert_numbers({'f', 8}, std::as_bytes(std::span(doubles)).data(), 8,
                                      std::span(scratch))) {
      throw InputError(fmt::format("{}: a number there is beyond float32's range", what));
    }
    return {scratch.data(), {region.cells(), extent[1] * extent[2], extent[2], 1}};
  }

  std::int64_t plane_multiple() const override {
    return layout().chunk.empty() ? 1 : std::min(layout().chunk[1], size());
  }

 private:
  Hdf5Handle dataset_;
  bool is_double_;
};

}  // namespace

Hdf5Field open_hdf5_field(const Hdf5Handle& file, const std::filesystem::path& path,
                          BoxField field) {
  auto dataset = open_hdf5_dataset(file, path, name_of(field));
  require_cube(dataset, field);
  if (dataset.type.is_whole()) {
    refuse(dataset, fmt::format("its type is {}, expected float32 (other floating-point numbers "
                                "are converted)",
                                dataset.layout.type));
  }
  require_hdf5_numbers(dataset);
  auto& [type, shape, chunk, filters, is_fortran_order] = dataset.layout;
  const auto size = shape[1];
  return {.dataset = std::move(dataset.handle),
          .layout = {.file = path,
                     .type = std::move(type),
                     .shape = std::move(shape),
                     .chunk = std::move(chunk),
                     .filters = std::move(filters),
                     .stored_bytes = dataset.stored_bytes},
          .size = size,
          .is_double = dataset.type.bytes > 4};
}

std::vector<std::int64_t> find_numbers(const Hdf5Field& field, std::int64_t file_size,
                                       const std::string& what) {
  if (field.layout.type != "float32" || !field.layout.filters.empty()) return {};
  if (!field.layout.chunk.empty()) return find_chunks(field, file_size, what);
  return find_contiguous(field, file_size, what);
}

std::unique_ptr<FieldSource> make_library_source(Hdf5Field field, std::int64_t channels) {
  return std::make_unique<LibrarySource>(std::move(field), channels);
}

}  // namespace kolo
