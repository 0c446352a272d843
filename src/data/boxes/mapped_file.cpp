#include "data/boxes/mapped_file.h"

#include <cerrno>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

FileDescriptor open_input(const std::filesystem::path& file) {
  try {
    return open_regular_file(file);
  } catch (const Error& error) {
    throw InputError(fmt::format("data: {}", error.what()));
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  const FileDescriptor descriptor = open_input(file);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) {
    throw Error(system_error_text(fmt::format("data: cannot inspect {}", file.string()), errno));
  }
  size_ = status.st_size;
  if (size_ == 0) return;
  void* const place =
      ::mmap(nullptr, narrow<std::size_t>(size_), PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (place == MAP_FAILED) {
    throw Error(system_error_text(
        fmt::format("data: cannot map {} ({} bytes) into memory", file.string(), size_), errno));
  }
  data_ = static_cast<const std::byte*>(place);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  // Fails for no address that mmap() gave.
  if (data_ != nullptr)
    static_cast<void>(::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_)));
}

}  // namespace kolo
