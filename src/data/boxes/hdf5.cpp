#include "data/boxes/hdf5.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <bit>

#include "kolo/base/error.h"

namespace kolo {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;  // one, as there is one library in a process
  return mutex;
}

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
  return fmt::format("{}.{}.{}", major, minor, release);
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

std::string hdf5_open_error() {
  auto text = hdf5_error_text();
  if (text.find("version number") == std::string::npos) return text;
  return fmt::format(
      "{}: it is stored as newer versions of HDF5 do, which this library ({}) can't read, or it is "
      "damaged; write it for older ones (h5py.File(..., libver=('earliest', 'v110')))",
      text, library_version());
}

Hdf5Handle open_hdf5_file(const std::filesystem::path& path) {
  const auto what = fmt::format("data: cannot open {} as HDF5", path.string());
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id < 0) throw InputError(fmt::format("{}: {}", what, hdf5_open_error()));
  return {id, H5Fclose, what};
}

bool has_hdf5_link(const Hdf5Handle& file, const std::string& name) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = name.find('/', end == 0 ? 1 : end + 1);
    if (H5Lexists(file.get(), name.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return true;
}

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

Hdf5Numbers floats_of(hid_t type) {
  const auto* const order = H5Tget_order(type) == H5T_ORDER_BE ? "big-endian " : "";
  const auto name = order + float_name(type);
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
  NumberType named = memory;
  named.is_big_endian = bytes > 1 && H5Tget_order(type) == H5T_ORDER_BE;
  return Hdf5Numbers{is_bits ? fmt::format("bits{}", 8 * bytes) : named.name(), memory,
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

}  // namespace

std::optional<Hdf5Numbers> hdf5_numbers_of(hid_t type, const std::string& what) {
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

const char* hdf5_contents_of(H5T_class_t kind) {
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

}  // namespace kolo
