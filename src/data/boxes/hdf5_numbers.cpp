#include "data/boxes/hdf5_dataset.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

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
