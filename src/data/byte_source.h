#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace kolo {

// The content of a file, unpacked, from its beginning to its end.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `bytes` as far as the content goes; returns how many there were. InputError for damaged
  // compressed data.
  [[nodiscard]] virtual std::size_t read(std::span<std::byte> bytes) = 0;
  // No content can be longer than this (exact for plain files).
  [[nodiscard]] virtual std::int64_t most_bytes() const = 0;
  [[nodiscard]] virtual bool is_compressed() const = 0;
};

// Opens a regular file, plain or gzip by its first two bytes. InputError when it can't be opened.
[[nodiscard]] std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path);

}  // namespace kolo
