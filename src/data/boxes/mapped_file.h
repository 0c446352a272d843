#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace kolo {

// A regular file mapped into memory to be read. It must not shrink while it is mapped: the system
// ends a process that reads beyond the end.
class MappedFile {
 public:
  MappedFile() = default;
  // InputError when it can't be opened or is no regular file.
  explicit MappedFile(const std::filesystem::path& file);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace kolo
