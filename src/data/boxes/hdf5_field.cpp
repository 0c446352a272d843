#include "data/boxes/hdf5_field.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/boxes/field_source.h"
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

// Opens one field; holds what its error messages need.
class FieldReader {
 public:
  FieldReader(const Hdf5Handle& file, const std::filesystem::path& path, BoxField field)
      : file_(file),
        path_(path),
        field_(field),
        what_(fmt::format("data: cannot read {} of {}", name_of(field), path.string())) {}

  Hdf5Field read() {
    check_link();
    Hdf5Field field;
    field.layout.file = path_;
    field.dataset = open_dataset();
    read_shape(field);
    read_type(field);
    read_storage(field);
    return field;
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw InputError(fmt::format("{}: {}", what_, found));
  }

  std::string names_in_root() const {
    std::string names;
    const auto add = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
      auto& list = *static_cast<std::string*>(out);
      if (list.size() < 200) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
      return 0;
    };
    hsize_t index = 0;
    check_hdf5(H5Literate(file_.get(), H5_INDEX_NAME, H5_ITER_INC, &index, add, &names), what_);
    return names.empty() ? "nothing" : names;
  }

  void check_link() const {
    const char* const name = name_of(field_);
    const htri_t exists = H5Lexists(file_.get(), name, H5P_DEFAULT);
    check_hdf5(exists, what_);
    if (exists == 0) {
      fail(fmt::format("there is no such dataset; the file's root holds {}", names_in_root()));
    }
    H5L_info_t link{};
    check_hdf5(H5Lget_info(file_.get(), name, &link, H5P_DEFAULT), what_);
    if (link.type != H5L_TYPE_HARD && link.type != H5L_TYPE_SOFT) {
      fail("it is an external link, into another file; expected a dataset of this file");
    }
  }

  Hdf5Handle open_dataset() const {
    const hid_t id = H5Oopen(file_.get(), name_of(field_), H5P_DEFAULT);
    if (id < 0) fail(hdf5_error_text());
    Hdf5Handle object(id, H5Oclose, what_);
    const auto type = H5Iget_type(object.get());
    if (type != H5I_DATASET) {
      fail(fmt::format("it is a {}, expected a dataset",
                       type == H5I_GROUP ? "group" : "named data type"));
    }
    return object;
  }

  void read_shape(Hdf5Field& field) const {
    const Hdf5Handle space(H5Dget_space(field.dataset.get()), H5Sclose, what_);
    const int rank = H5Sget_simple_extent_ndims(space.get());
    check_hdf5(rank, what_);
    const auto channels = channels_of(field_);
    if (rank != 4) {
      fail(fmt::format("its rank is {}, expected 4: ({}, N, N, N)", rank, channels));
    }
    std::array<hsize_t, 4> shape{};
    check_hdf5(H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr), what_);
    for (const auto dimension : shape) {
      if (!std::in_range<std::int64_t>(dimension)) fail("a dimension is beyond 63 bits");
      field.layout.shape.push_back(static_cast<std::int64_t>(dimension));
    }
    if (!std::cmp_equal(shape[0], channels)) {
      fail(fmt::format("its shape is ({}), expected {} channels first",
                       shape_text(std::span<const hsize_t>(shape)), channels));
    }
    if (shape[1] == 0 || shape[1] != shape[2] || shape[2] != shape[3]) {
      fail(fmt::format("its shape is ({}), expected a cube: ({}, N, N, N)",
                       shape_text(std::span<const hsize_t>(shape)), channels));
    }
    field.size = field.layout.shape[1];
    try {
      static_cast<void>(
          checked_multiply(checked_product(std::span<const std::int64_t>(field.layout.shape)),
                           static_cast<std::int64_t>(sizeof(double))));
    } catch (const Error&) {
      fail(fmt::format("its shape ({}) overflows 64 bits",
                       shape_text(std::span<const hsize_t>(shape))));
    }
  }

  void read_type(Hdf5Field& field) const {
    const Hdf5Handle type(H5Dget_type(field.dataset.get()), H5Tclose, what_);
    const auto kind = H5Tget_class(type.get());
    const auto bits = H5Tget_size(type.get()) * 8;
    if (kind != H5T_FLOAT || (bits != 32 && bits != 64)) {
      const auto* const name = kind == H5T_INTEGER    ? "integers"
                               : kind == H5T_FLOAT    ? "floating-point numbers"
                               : kind == H5T_COMPOUND ? "structures"
                                                      : "no numbers";
      fail(fmt::format("its type is {} of {} bits, expected float32 (float64 is converted)", name,
                       bits));
    }
    field.layout.type = fmt::format(
        "{}float{}", H5Tget_order(type.get()) == H5T_ORDER_BE ? "big-endian " : "", bits);
  }

  void read_storage(Hdf5Field& field) const {
    const Hdf5Handle creation(H5Dget_create_plist(field.dataset.get()), H5Pclose, what_);
    const int external = H5Pget_external_count(creation.get());
    check_hdf5(external, what_);
    if (external > 0) fail("its numbers are in other files (external storage), expected this one");
    const auto layout = H5Pget_layout(creation.get());
    if (layout == H5D_VIRTUAL) {
      fail("it is a virtual dataset, whose numbers are elsewhere; expected them in this file");
    }
    if (layout == H5D_CHUNKED) {
      std::array<hsize_t, 4> chunk{};
      check_hdf5(H5Pget_chunk(creation.get(), 4, chunk.data()), what_);
      field.layout.chunk.assign(chunk.begin(), chunk.end());
      read_filters(creation, field);
    }
    field.layout.stored_bytes = narrow<std::int64_t>(H5Dget_storage_size(field.dataset.get()));
    if (field.layout.stored_bytes == 0) fail("no numbers were ever written to it");
  }

  void read_filters(const Hdf5Handle& creation, Hdf5Field& field) const {
    const int count = H5Pget_nfilters(creation.get());
    check_hdf5(count, what_);
    for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
      unsigned flags = 0, configuration = 0;
      std::size_t values = 0;
      std::array<char, 64> name{};
      const auto filter = H5Pget_filter2(creation.get(), i, &flags, &values, nullptr,
                                         name.size() - 1, name.data(), &configuration);
      check_hdf5(filter, what_);
      const htri_t is_available = H5Zfilter_avail(filter);
      check_hdf5(is_available, what_);
      const auto text = name[0] == '\0' ? fmt::format("number {}", filter) : name.data();
      if (is_available == 0) {
        fail(
            fmt::format("it is packed with the filter {} ({}), which this HDF5 library lacks; "
                        "install its plugin (HDF5_PLUGIN_PATH) or write the file without it, for "
                        "example with h5repack -f NONE",
                        text, filter));
      }
      field.layout.filters.push_back(text);
    }
  }

  const Hdf5Handle& file_;
  const std::filesystem::path& path_;
  BoxField field_;
  std::string what_;
};

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
        dataset_(std::move(field.dataset)) {}

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
    if (H5Dread(dataset_.get(), H5T_NATIVE_FLOAT, here.get(), there.get(), H5P_DEFAULT,
                scratch.data()) < 0) {
      throw InputError(fmt::format("{}: {}", what, hdf5_error_text()));
    }
    return {scratch.data(), {region.cells(), extent[1] * extent[2], extent[2], 1}};
  }

  std::int64_t plane_multiple() const override {
    return layout().chunk.empty() ? 1 : std::min(layout().chunk[1], size());
  }

 private:
  Hdf5Handle dataset_;
};

}  // namespace

Hdf5Field open_hdf5_field(const Hdf5Handle& file, const std::filesystem::path& path,
                          BoxField field) {
  return FieldReader(file, path, field).read();
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
