#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

// Listing of a safetensors file by its header, without LibTorch.
namespace kolo {

// A tensor of a file, as its header describes it.
struct SafetensorsEntry {
  std::string name;
  // Undefined for types that can't be read, such as U16 and 8-bit floats; the file's other tensors
  // can be read all the same.
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes, counted from the start of the data
  std::uint64_t end = 0;
  std::string type_name;  // the dtype as the header names it, in listings

  [[nodiscard]] bool is_readable() const { return dtype != c10::ScalarType::Undefined; }
};

struct SafetensorsListing {
  std::vector<SafetensorsEntry> tensors;  // in the order of the header
  std::uint64_t data_offset = 0;          // where in the file the data starts, in bytes
};

// Reads the header and checks it: its length, its JSON, sizes that agree with shape and dtype (if
// it can be read), data that covers the rest of the file without holes or overlaps.
[[nodiscard]] SafetensorsListing list_safetensors(const std::filesystem::path& path);

}  // namespace kolo
