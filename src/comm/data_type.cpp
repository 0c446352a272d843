#include "kolo/comm/data_type.h"

namespace kolo {

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::int64:
      return 8;
    case DataType::float32:
    case DataType::int32:
      return 4;
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::int16:
      return 2;
    case DataType::int8:
    case DataType::uint8:
    case DataType::boolean:
      return 1;
  }
  return 0;
}

std::string_view name_of(DataType type) {
  constexpr std::string_view names[] = {"float64", "float32", "float16", "bfloat16", "int64",
                                        "int32",   "int16",   "int8",    "uint8",    "bool"};
  return names[static_cast<std::size_t>(type)];
}

std::string_view name_of(ReduceOp op) {
  constexpr std::string_view names[] = {"sum", "average", "min", "max", "product"};
  return names[static_cast<std::size_t>(op)];
}

std::string_view name_of(MemoryKind kind) {
  return kind == MemoryKind::host ? "host" : "device";
}

}  // namespace kolo
