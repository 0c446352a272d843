#include "data/boxes/hdf5.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

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

// Begins names of types that the library turns round.
const char* order_of(hid_t type) {
  return H5Tget_order(type) == H5T_ORDER_BE ? "big-endian " : "";
}

// Name of a type of numbers in an HDF5 file, and the type that they are read as.
struct Hdf5Numbers {
  std::string name;
  NumberType type;
  hid_t memory_type = H5I_INVALID_HID;
};

Hdf5Numbers floats_of(hid_t type) {
  const auto name = order_of(type) + float_name(type);
  if (H5Tget_size(type) <= sizeof(float)) return {name, {'f', 4}, H5T_NATIVE_FLOAT};
  return {name, {'f', 8}, H5T_NATIVE_DOUBLE};
}

// Type in memory of integers and bit fields of up to 64 bits.
hid_t whole_memory_type(const NumberType& type, bool is_bits) {
  const auto size = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(type.bytes)));
  const std::array with_sign{H5T_NATIVE_INT8, H5T_NATIVE_INT16, H5T_NATIVE_INT32, H5T_NATIVE_INT64};
  const std::array without{H5T_NATIVE_UINT8, H5T_NATIVE_UINT16, H5T_NATIVE_UINT32,
                           H5T_NATIVE_UINT64};
  const std::array bits{H5T_NATIVE_B8, H5T_NATIVE_B16, H5T_NATIVE_B32, H5T_NATIVE_B64};
  return (is_bits ? bits : type.kind == 'i' ? with_sign : without).at(size);
}

std::optional<Hdf5Numbers> whole_numbers_of(hid_t type, bool is_bits) {
  const auto bytes = std::bit_ceil(H5Tget_size(type));
  if (bytes > sizeof(std::int64_t)) return std::nullopt;
  const bool has_sign = !is_bits && H5Tget_sign(type) == H5T_SGN_2;
  const NumberType memory{has_sign ? 'i' : 'u', static_cast<std::int64_t>(bytes)};
  const auto order = bytes > 1 ? order_of(type) : "";
  return Hdf5Numbers{is_bits ? fmt::format("bits{}", 8 * bytes) : order + memory.name(), memory,
                     whole_memory_type(memory, is_bits)};
}

// Numbers of h5py's bool, and of classes with names.
std::optional<Hdf5Numbers> enumeration_of(hid_t type, const std::string& what) {
  const Hdf5Handle base(H5Tget_super(type), H5Tclose, what);
  auto numbers = whole_numbers_of(base.get(), false);
  if (!numbers) return std::nullopt;
  const auto has_member = [&](const char* name) { return H5Tget_member_index(type, name) >= 0; };
  const bool is_bool = H5Tget_nmembers(type) == 2 && has_member("FALSE") && has_member("TRUE");
  numbers->name = is_bool ? "bool" : fmt::format("enumeration of {}", numbers->name);
  return numbers;
}

// Finds the numbers of a type; nothing for other types. `what` begins messages.
std::optional<Hdf5Numbers> numbers_of(hid_t type, const std::string& what) {
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

// Names types that hold no such numbers, for messages.
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
    default:
      return "no numbers of up to 64 bits";
  }
}

// Reader of one dataset's properties.
class DatasetReader {
 public:
  DatasetReader(const Hdf5Handle& file, const std::filesystem::path& path, const std::string& name)
      : file_(file),
        path_(path),
        name_(name),
        what_(fmt::format("data: cannot read {} of {}", name, path.string())) {}

  Hdf5Dataset read() {
    check_link();
    Hdf5Dataset dataset;
    dataset.what = what_;
    dataset.layout.file = path_;
    dataset.handle = open();
    read_shape(dataset);
    read_type(dataset);
    read_layout(dataset);
    require_written(dataset);
    return dataset;
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw InputError(fmt::format("{}: {}", what_, found));
  }

  void check_link() {
    if (!has_hdf5_link(file_, name_)) {
      const auto names = names_in_root(file_, what_);
      const auto shown = std::span(names).first(std::min<std::size_t>(names.size(), 20));
      fail(fmt::format("there is no such dataset; the file's root holds {}",
                       names.empty() ? "nothing" : join(shown)));
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
    if (id < 0) fail(hdf5_open_error());
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
    const std::span<const std::int64_t> shape(dataset.layout.shape);
    try {
      (void)checked_multiply(checked_product(shape), std::int64_t{8});
    } catch (const Error&) {
      fail(fmt::format("its shape ({}) overflows 64 bits", shape_text(shape)));
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
    dataset.layout.stored_bytes = narrow<std::int64_t>(H5Dget_storage_size(dataset.handle.get()));
    require_numbers(creation);
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
      require_filter(filter, dataset.layout.filters.back());
    }
  }

  // Numbers that are elsewhere, or that the library can't unpack.
  void require_numbers(const Hdf5Handle& creation) const {
    const int external = H5Pget_external_count(creation.get());
    check_hdf5(external, what_);
    if (external > 0) {
      fail(
          "its numbers are in other files (external storage), expected this one; copy them into "
          "one file (in h5py with new[name] = old[name][...])");
    }
    if (H5Pget_layout(creation.get()) == H5D_VIRTUAL) {
      fail(
          "it is a virtual dataset, whose numbers are elsewhere, and zeros where files are "
          "missing; expected them in this file; copy them into one file (in h5py with new[name] = "
          "old[name][...])");
    }
  }

  void require_filter(H5Z_filter_t filter, const std::string& name) const {
    const htri_t is_available = H5Zfilter_avail(filter);
    check_hdf5(is_available, what_);
    if (is_available > 0) return;
    fail(fmt::format(
        "it is packed with the filter {} ({}), which this HDF5 library lacks; write it again with "
        "gzip or without a filter (in h5py with compression=\"gzip\" or None; h5repack -f NONE "
        "where that has the filter), or install the filter's plugin (HDF5_PLUGIN_PATH)",
        name, filter));
  }

  void require_written(const Hdf5Dataset& dataset) const {
    const auto& layout = dataset.layout;
    if (std::ranges::find(layout.shape, std::int64_t{0}) != layout.shape.end()) return;
    if (layout.stored_bytes == 0) fail("no numbers were ever written to it");
    if (layout.chunk.empty()) return;
    const Hdf5Handle space(H5Dget_space(dataset.handle.get()), H5Sclose, what_);
    hsize_t written = 0;
    check_hdf5(H5Dget_num_chunks(dataset.handle.get(), space.get(), &written), what_);
    std::int64_t chunks = 1;
    for (std::size_t axis = 0; axis < layout.chunk.size(); ++axis)
      chunks *= 1 + (layout.shape[axis] - 1) / layout.chunk[axis];
    if (std::cmp_greater_equal(written, chunks)) return;
    fail(
        fmt::format("{} of its {} chunks were never written, so that their numbers would be zeros; "
                    "write all of it",
                    chunks - static_cast<std::int64_t>(written), chunks));
  }

  const Hdf5Handle& file_;
  const std::filesystem::path& path_;
  const std::string& name_;
  std::string what_, soft_target_;
};

}  // namespace

Hdf5Dataset open_hdf5_dataset(const Hdf5Handle& file, const std::filesystem::path& path,
                              const std::string& name) {
  return DatasetReader(file, path, name).read();
}

}  // namespace kolo
