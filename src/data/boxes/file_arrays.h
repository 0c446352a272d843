#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/file.h"
#include "kolo/data/array_file.h"

// Arrays that lie in their file as they do in memory.
namespace kolo {

// A regular file mapped into memory to be read. It must not shrink while it is mapped: the system
// ends a process that reads beyond the end.
struct MappedFile {
  std::shared_ptr<const std::byte> data;  // null for an empty file
  std::int64_t size = 0;

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {data.get(), static_cast<std::size_t>(size)};
  }
};
// InputError when it can't be opened or is no regular file.
[[nodiscard]] MappedFile map_file(const std::filesystem::path& file);

// Array of numbers from `offset` on, mapped or read by system calls as the layout says.
class PlainArray final : public ArrayFile {
 public:
  // InputError if the file can't be opened, or, if it is mapped, doesn't hold all numbers.
  PlainArray(std::string name, ArrayLayout layout, const NumberType& type, std::int64_t offset);

  [[nodiscard]] const float* values() const override;
  void read_bytes(const ArrayRegion& region, std::span<std::byte> bytes) const override;

 private:
  std::int64_t offset_;
  std::vector<std::int64_t> strides_;  // in numbers
  FileDescriptor file_;                // unless it is mapped
  MappedFile map_;
};

}  // namespace kolo
