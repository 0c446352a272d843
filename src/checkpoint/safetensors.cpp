#include "kolo/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <sys/stat.h>

#include <fmt/format.h>

#include "checkpoint/checksum.h"
#include "checkpoint/safetensors_header.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian and written without conversion");

namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

std::span<std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

std::uint64_t size_of(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_safetensors({path}, "cannot find out its size");
  return static_cast<std::uint64_t>(status.st_size);
}

// Reads length and header; the descriptor then stands at the start of the data. `crc32` is of what
// was read.
SafetensorsListing read_header(const FileDescriptor& file, const std::filesystem::path& path,
                               std::uint32_t* crc32 = nullptr) {
  const std::uint64_t file_size = size_of(file, path);
  std::uint64_t header_size = 0;
  if (read_up_to(file.get(), std::as_writable_bytes(std::span(&header_size, 1)), path) !=
      safetensors_prefix_size) {
    fail_safetensors({path},
                     fmt::format("has {} bytes, too few for the header's length", file_size));
  }
  if (header_size > file_size - safetensors_prefix_size) {
    fail_safetensors({path},
                     fmt::format("the header's length is {} bytes, but the file has {} in all",
                                 header_size, file_size));
  }
  if (header_size > safetensors_header_limit) {
    fail_safetensors({path}, fmt::format("the header's length is {} bytes, expected at most {}",
                                         header_size, safetensors_header_limit));
  }
  std::string text(header_size, '\0');
  if (read_up_to(file.get(), std::as_writable_bytes(std::span(text)), path) != header_size) {
    fail_safetensors({path}, "ends within the header");
  }
  if (crc32 != nullptr) {
    *crc32 = checksum(0, std::as_bytes(std::span(&header_size, 1)));
    *crc32 = checksum(*crc32, std::as_bytes(std::span(text)));
  }
  const std::uint64_t data_offset = safetensors_prefix_size + header_size;
  auto listing = parse_safetensors_header(path, text, file_size - data_offset);
  listing.data_offset = data_offset;
  return listing;
}

torch::Tensor read_tensor(const FileDescriptor& file, const std::filesystem::path& path,
                          const SafetensorsEntry& entry) {
  const auto tensor = torch::empty(entry.shape, entry.dtype);
  const auto bytes = bytes_of(tensor);
  if (read_up_to(file.get(), bytes, path) != bytes.size()) {
    fail_safetensors({path, entry.name}, "ends before its data does");
  }
  const auto is_bool = [](std::byte value) { return value <= std::byte{1}; };
  if (entry.dtype == torch::kBool && !std::all_of(bytes.begin(), bytes.end(), is_bool)) {
    fail_safetensors({path, entry.name}, "is BOOL and holds a byte that is neither 0 nor 1");
  }
  return tensor;
}

}  // namespace

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const NamedTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  const auto entries = plan_safetensors(path, tensors);
  const std::string header = format_safetensors_header(path, entries, metadata);
  const std::uint64_t header_size = header.size();
  AtomicFile file(path);
  WrittenFile written;
  // A block is still in the cache when its checksum is taken.
  const auto write = [&](std::span<const std::byte> bytes) {
    for (std::size_t begin = 0; begin < bytes.size(); begin += block_bytes) {
      const auto block = bytes.subspan(begin, std::min(block_bytes, bytes.size() - begin));
      file.write(block);
      written.crc32 = checksum(written.crc32, block);
    }
    written.size += bytes.size();
  };
  write(std::as_bytes(std::span(&header_size, 1)));
  write(std::as_bytes(std::span(header)));
  for (const std::size_t index : order_of_data(entries)) {
    const auto dense = tensors[index].tensor.detach().to(torch::kCPU).resolve_neg().contiguous();
    write(bytes_of(dense));
  }
  file.commit();
  return written;
}

std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path, std::uint32_t* crc32) {
  const FileDescriptor file = open_regular_file(path);
  const auto listing = read_header(file, path, crc32);
  std::vector<NamedTensor> tensors(listing.tensors.size());
  for (const std::size_t index : order_of_data(listing.tensors)) {
    const auto& entry = listing.tensors[index];
    tensors[index] = {entry.name, read_tensor(file, path, entry)};
    if (crc32 != nullptr) *crc32 = checksum(*crc32, bytes_of(tensors[index].tensor));
  }
  return tensors;
}

SafetensorsListing list_safetensors(const std::filesystem::path& path) {
  return read_header(open_regular_file(path), path);
}

}  // namespace kolo
