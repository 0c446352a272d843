#include "data/boxes/hdf5_dataset.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/natural_order.h"
#include "data/boxes/field_source.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
  return fmt::format("{}.{}.{}", major, minor, release);
}

// Why the library can't open something. What it doesn't know of newer versions it calls bad.
std::string reason_of_library() {
  auto text = hdf5_error_text();
  if (text.find("version number") == std::string::npos) return text;
  return fmt::format(
      "{}: it is stored as newer versions of HDF5 do, which this library ({}) can't read, or it is "
      "damaged; write it for older ones (h5py.File(..., libver=('earliest', 'v110')))",
      text, library_version());
}

// As numbers of a file are called and as they are read.
struct FileNumbers {
  std::string name;
  NumberType type;
  hid_t memory_type;
};

std::string float_name(hid_t type) {
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, fraction = 0, fraction_bits = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) < 0)
    return "float";
  const auto bytes = H5Tget_size(type);
  const auto is_of = [&](std::size_t size, std::size_t e, std::size_t f) {
    return bytes == size && exponent_bits == e && fraction_bits == f;
  };
  if (is_of(2, 8, 7)) return "bfloat16";
  if (is_of(2, 5, 10) || is_of(4, 8, 23) || is_of(8, 11, 52))
    return fmt::format("float{}", 8 * bytes);
  return fmt::format("float of {} bits ({} of them the exponent)", 8 * bytes, exponent_bits);
}

FileNumbers floats_of(hid_t type) {
  const auto* const order = H5Tget_order(type) == H5T_ORDER_BE ? "big-endian " : "";
  const auto name = order + float_name(type);
  if (H5Tget_size(type) <= sizeof(float)) return {name, {'f', 4}, H5T_NATIVE_FLOAT};
  return {name, {'f', 8}, H5T_NATIVE_DOUBLE};
}

// Of integers and bit fields of up to 64 bits.
hid_t whole_memory_type(const NumberType& type, bool is_bits) {
  const auto size = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(type.bytes)));
  const std::array with_sign{H5T_NATIVE_INT8, H5T_NATIVE_INT16, H5T_NATIVE_INT32, H5T_NATIVE_INT64};
  const std::array without{H5T_NATIVE_UINT8, H5T_NATIVE_UINT16, H5T_NATIVE_UINT32,
                           H5T_NATIVE_UINT64};
  const std::array bits{H5T_NATIVE_B8, H5T_NATIVE_B16, H5T_NATIVE_B32, H5T_NATIVE_B64};
  return (is_bits ? bits : type.kind == 'i' ? with_sign : without).at(size);
}

std::optional<FileNumbers> whole_numbers_of(hid_t type, bool is_bits) {
  const auto bytes = std::bit_ceil(H5Tget_size(type));
  if (bytes > sizeof(std::int64_t)) return std::nullopt;
  const bool has_sign = !is_bits && H5Tget_sign(type) == H5T_SGN_2;
  const NumberType memory{has_sign ? 'i' : 'u', static_cast<std::int64_t>(bytes)};
  NumberType named = memory;
  named.is_big_endian = bytes > 1 && H5Tget_order(type) == H5T_ORDER_BE;
  return FileNumbers{is_bits ? fmt::format("bits{}", 8 * bytes) : named.name(), memory,
                     whole_memory_type(memory, is_bits)};
}

// Of h5py's bool, and of classes with names: their numbers.
std::optional<FileNumbers> enumeration_of(hid_t type, const std::string& what) {
  const Hdf5Handle base(H5Tget_super(type), H5Tclose, what);
  auto numbers = whole_numbers_of(base.get(), false);
  if (!numbers) return std::nullopt;
  const auto has_member = [&](const char* name) { return H5Tget_member_index(type, name) >= 0; };
  const bool is_bool = H5Tget_nmembers(type) == 2 && has_member("FALSE") && has_member("TRUE");
  numbers->name = is_bool ? "bool" : fmt::format("enumeration of {}", numbers->name);
  return numbers;
}

std::optional<FileNumbers> numbers_of(hid_t type, const std::string& what) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return floats_of(type);
    case H5T_INTEGER:
      return whole_numbers_of(type, false);
    case H5T_BITFIELD:
      return whole_numbers_of(type, true);
    case H5T_ENUM:
      return enumeration_of(type, what);
    default:
      return std::nullopt;
  }
}

const char* contents_of(H5T_class_t kind) {
  switch (kind) {
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "structures, as complex numbers are stored";
    case H5T_ARRAY:
      return "arrays in each of its elements";
    case H5T_VLEN:
      return "rows of different lengths";
    case H5T_OPAQUE:
      return "raw bytes";
    case H5T_REFERENCE:
      return "references";
    case H5T_INTEGER:
    case H5T_BITFIELD:
    case H5T_ENUM:
      return "whole numbers of more than 64 bits";
    default:
      return "no numbers";
  }
}

// Opens one dataset; holds what its error messages need.
class DatasetReader {
 public:
  DatasetReader(const Hdf5Handle& file, const std::filesystem::path& path, const std::string& name)
      : file_(file),
        name_(name),
        what_(fmt::format("data: cannot read {} of {}", name, path.string())) {}

  Hdf5Dataset read() {
    check_link();
    Hdf5Dataset dataset;
    dataset.what = what_;
    dataset.handle = open();
    read_shape(dataset);
    read_type(dataset);
    read_layout(dataset);
    return dataset;
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

  void check_link() {
    if (!has_hdf5_link(file_, name_)) {
      fail(fmt::format("there is no such dataset; the file's root holds {}", names_in_root()));
    }
    H5L_info_t link{};
    check_hdf5(H5Lget_info(file_.get(), name_.c_str(), &link, H5P_DEFAULT), what_);
    if (link.type == H5L_TYPE_HARD) return;
    std::string value(link.u.val_size + 1, '\0');
    check_hdf5(H5Lget_val(file_.get(), name_.c_str(), value.data(), value.size(), H5P_DEFAULT),
               what_);
    if (link.type == H5L_TYPE_SOFT) {
      soft_target_ = value.c_str();
      return;
    }
    const char *other_file = "", *object = "";
    if (link.type == H5L_TYPE_EXTERNAL)
      check_hdf5(H5Lunpack_elink_val(value.data(), link.u.val_size, nullptr, &other_file, &object),
                 what_);
    fail(
        fmt::format("it is an external link, into another file ({}); expected a dataset of this "
                    "file; name that file instead, or copy the dataset from it",
                    other_file));
  }

  Hdf5Handle open() const {
    const hid_t id = H5Oopen(file_.get(), name_.c_str(), H5P_DEFAULT);
    if (id < 0 && !soft_target_.empty() && !has_hdf5_link(file_, soft_target_))
      fail(fmt::format("it is a link to {}, which is not in the file", soft_target_));
    if (id < 0) fail(reason_of_library());
    Hdf5Handle object(id, H5Oclose, what_);
    const auto type = H5Iget_type(object.get());
    if (type != H5I_DATASET) {
      fail(fmt::format("it is a {}, expected a dataset",
                       type == H5I_GROUP ? "group" : "named data type"));
    }
    return object;
  }

  void read_shape(Hdf5Dataset& dataset) const {
    const Hdf5Handle space(H5Dget_space(dataset.handle.get()), H5Sclose, what_);
    if (H5Sget_simple_extent_type(space.get()) == H5S_NULL)
      fail("it is an empty dataset, without a shape");
    const int rank = H5Sget_simple_extent_ndims(space.get());
    check_hdf5(rank, what_);
    std::vector<hsize_t> lengths(static_cast<std::size_t>(rank));
    if (rank > 0)
      check_hdf5(H5Sget_simple_extent_dims(space.get(), lengths.data(), nullptr), what_);
    for (const auto length : lengths) {
      if (!std::in_range<std::int64_t>(length)) fail("a dimension is beyond 63 bits");
      dataset.layout.shape.push_back(static_cast<std::int64_t>(length));
    }
  }

  void read_type(Hdf5Dataset& dataset) const {
    const Hdf5Handle type(H5Dget_type(dataset.handle.get()), H5Tclose, what_);
    const auto numbers = numbers_of(type.get(), what_);
    if (!numbers) {
      fail(fmt::format("it holds {}; expected floating-point or whole numbers",
                       contents_of(H5Tget_class(type.get()))));
    }
    dataset.layout.type = numbers->name;
    dataset.type = numbers->type;
    dataset.memory_type = numbers->memory_type;
  }

  void read_layout(Hdf5Dataset& dataset) const {
    const Hdf5Handle creation(H5Dget_create_plist(dataset.handle.get()), H5Pclose, what_);
    dataset.stored_bytes = narrow<std::int64_t>(H5Dget_storage_size(dataset.handle.get()));
    if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return;
    std::vector<hsize_t> chunk(dataset.layout.shape.size());
    check_hdf5(H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()), what_);
    dataset.layout.chunk.assign(chunk.begin(), chunk.end());
    const int count = H5Pget_nfilters(creation.get());
    check_hdf5(count, what_);
    for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
      unsigned flags = 0, configuration = 0;
      std::size_t values = 0;
      std::array<char, 64> name{};
      const auto filter = H5Pget_filter2(creation.get(), i, &flags, &values, nullptr,
                                         name.size() - 1, name.data(), &configuration);
      check_hdf5(filter, what_);
      dataset.layout.filters.push_back(name[0] == '\0' ? fmt::format("number {}", filter)
                                                       : name.data());
    }
  }

  const Hdf5Handle& file_;
  const std::string& name_;
  std::string what_, soft_target_;
};

void require_filters(const Hdf5Dataset& dataset, const Hdf5Handle& creation) {
  for (unsigned i = 0; i < dataset.layout.filters.size(); ++i) {
    unsigned flags = 0, configuration = 0;
    std::size_t values = 0;
    const auto filter =
        H5Pget_filter2(creation.get(), i, &flags, &values, nullptr, 0, nullptr, &configuration);
    check_hdf5(filter, dataset.what);
    const htri_t is_available = H5Zfilter_avail(filter);
    check_hdf5(is_available, dataset.what);
    if (is_available > 0) continue;
    throw InputError(fmt::format(
        "{}: it is packed with the filter {} ({}), which this HDF5 library lacks; write it again "
        "with gzip or without a filter (in h5py with compression=\"gzip\" or None; h5repack -f "
        "NONE where that has the filter), or install the filter's plugin (HDF5_PLUGIN_PATH)",
        dataset.what, dataset.layout.filters[i], filter));
  }
}

std::int64_t chunks_of(const ArrayLayout& layout) {
  std::int64_t chunks = 1;
  for (std::size_t axis = 0; axis < layout.shape.size(); ++axis)
    chunks = checked_multiply(chunks, 1 + (layout.shape[axis] - 1) / layout.chunk[axis]);
  return chunks;
}

void require_written(const Hdf5Dataset& dataset) {
  const auto& layout = dataset.layout;
  if (std::ranges::find(layout.shape, std::int64_t{0}) != layout.shape.end()) return;
  if (dataset.stored_bytes == 0)
    throw InputError(fmt::format("{}: no numbers were ever written to it", dataset.what));
  if (layout.chunk.empty()) return;
  const Hdf5Handle space(H5Dget_space(dataset.handle.get()), H5Sclose, dataset.what);
  hsize_t written = 0;
  check_hdf5(H5Dget_num_chunks(dataset.handle.get(), space.get(), &written), dataset.what);
  const auto chunks = chunks_of(layout);
  if (std::cmp_greater_equal(written, chunks)) return;
  throw InputError(
      fmt::format("{}: {} of its {} chunks were never written, so that their numbers would be "
                  "zeros; write all of it",
                  dataset.what, chunks - static_cast<std::int64_t>(written), chunks));
}

class Hdf5Array final : public ArrayFile {
 public:
  Hdf5Array(const std::string& name, Hdf5Handle file, Hdf5Dataset dataset)
      : ArrayFile(name, dataset.layout, dataset.type),
        file_(std::move(file)),
        dataset_(std::move(dataset)) {}

  void require_numbers() const { require_hdf5_numbers(dataset_); }

 private:
  void read_rows(std::int64_t first, std::int64_t count,
                 std::span<std::byte> bytes) const override {
    const Hdf5Session session;
    const auto& what = dataset_.what;
    const Hdf5Handle there(H5Dget_space(dataset_.handle.get()), H5Sclose, what);
    std::vector<hsize_t> start(layout().shape.size(), 0),
        lengths(layout().shape.begin(), layout().shape.end());
    if (!start.empty()) {
      start[0] = static_cast<hsize_t>(first);
      lengths[0] = static_cast<hsize_t>(count);
      check_hdf5(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, start.data(), nullptr,
                                     lengths.data(), nullptr),
                 what);
    }
    const Hdf5Handle here(
        H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr), H5Sclose,
        what);
    if (H5Dread(dataset_.handle.get(), dataset_.memory_type, here.get(), there.get(), H5P_DEFAULT,
                bytes.data()) < 0)
      throw InputError(fmt::format("{}, sample {}: {}", what, first, hdf5_error_text()));
  }

  Hdf5Handle file_;
  Hdf5Dataset dataset_;
};

}  // namespace

bool is_hdf5_file(const std::filesystem::path& path) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  const MappedFile file(path);
  const auto size = static_cast<std::size_t>(file.size());
  const auto bytes = std::as_bytes(std::span(signature));
  // At 0, or after a user block at 512, 1024, 2048, ...
  for (std::size_t at = 0; at + bytes.size() <= size; at = at == 0 ? 512 : 2 * at)
    if (std::equal(bytes.begin(), bytes.end(), file.data() + at)) return true;
  return false;
}

Hdf5Handle open_hdf5_file(const std::filesystem::path& path) {
  const auto what = fmt::format("data: cannot open {} as HDF5", path.string());
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id < 0) throw InputError(fmt::format("{}: {}", what, reason_of_library()));
  return {id, H5Fclose, what};
}

bool has_hdf5_link(const Hdf5Handle& file, const std::string& name) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = name.find('/', end == 0 ? 1 : end + 1);
    if (H5Lexists(file.get(), name.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return true;
}

std::vector<std::string> list_hdf5_arrays(const std::filesystem::path& path) {
  const Hdf5Session session;
  const auto file = open_hdf5_file(path);
  std::vector<std::string> names;
  const auto add = [](hid_t root, const char* name, const H5L_info_t*, void* out) -> herr_t {
    const hid_t object = H5Oopen(root, name, H5P_DEFAULT);
    const bool is_group = object >= 0 && H5Iget_type(object) == H5I_GROUP;
    if (object >= 0) H5Oclose(object);
    try {  // no exception may pass through the library
      if (!is_group) static_cast<std::vector<std::string>*>(out)->emplace_back(name);
      return 0;
    } catch (...) {
      return -1;
    }
  };
  check_hdf5(H5Lvisit(file.get(), H5_INDEX_NAME, H5_ITER_INC, add, &names),
             fmt::format("data: cannot read {}", path.string()));
  std::ranges::sort(names, comes_before);
  return names;
}

Hdf5Dataset open_hdf5_dataset(const Hdf5Handle& file, const std::filesystem::path& path,
                              const std::string& name) {
  return DatasetReader(file, path, name).read();
}

void require_hdf5_numbers(const Hdf5Dataset& dataset) {
  const Hdf5Handle creation(H5Dget_create_plist(dataset.handle.get()), H5Pclose, dataset.what);
  const int external = H5Pget_external_count(creation.get());
  check_hdf5(external, dataset.what);
  if (external > 0) {
    throw InputError(fmt::format(
        "{}: its numbers are in other files (external storage), expected this one; copy them into "
        "one file (in h5py with new[name] = old[name][...])",
        dataset.what));
  }
  if (H5Pget_layout(creation.get()) == H5D_VIRTUAL) {
    throw InputError(fmt::format(
        "{}: it is a virtual dataset, whose numbers are elsewhere, and zeros where files are "
        "missing; expected them in this file; copy them into one file (in h5py with new[name] = "
        "old[name][...])",
        dataset.what));
  }
  require_filters(dataset, creation);
  require_written(dataset);
}

std::shared_ptr<const ArrayFile> open_hdf5_array(const std::filesystem::path& path,
                                                 const std::string& name) {
  const Hdf5Session session;
  auto file = open_hdf5_file(path);
  if (!has_hdf5_link(file, name)) return nullptr;
  auto dataset = open_hdf5_dataset(file, path, name);
  auto array = std::make_shared<Hdf5Array>(fmt::format("{} of {}", name, path.string()),
                                           std::move(file), std::move(dataset));
  array->require_numbers();
  return array;
}

}  // namespace kolo
