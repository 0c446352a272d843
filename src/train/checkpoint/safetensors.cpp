#include "kolo/train/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <numeric>
#include <set>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "train/checkpoint/safetensors_header.h"

namespace kolo {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian and written without conversion");

namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

std::span<std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

torch::Tensor read_tensor(const FileDescriptor& file, const std::filesystem::path& path,
                          const SafetensorsEntry& entry) {
  require_readable(path, entry);
  const auto tensor = torch::empty(entry.shape, entry.dtype);
  const auto bytes = bytes_of(tensor);
  if (read_up_to(file.get(), bytes, path) != bytes.size())
    fail_safetensors({path, entry.name}, "ends before its data does");
  const auto is_bool = [](std::byte value) { return value <= std::byte{1}; };
  if (entry.dtype == torch::kBool && !std::all_of(bytes.begin(), bytes.end(), is_bool))
    fail_safetensors({path, entry.name}, "is BOOL and holds a byte that is neither 0 nor 1");
  return tensor;
}

void check_writable(const std::filesystem::path& path, const NamedTensor& named) {
  const SafetensorsLocation location{path, named.name};
  if (named.name.empty()) fail_safetensors(location, "a tensor has no name");
  if (named.name == safetensors_metadata_key)
    fail_safetensors(location, "is a name that the format reserves");
  if (!named.tensor.defined()) fail_safetensors(location, "is undefined");
  if (named.tensor.layout() != torch::kStrided)
    fail_safetensors(location, "is sparse, expected a dense tensor");
}

// Entries for tensors to be written, with their places in the data, in the given order.
std::vector<SafetensorsEntry> plan_safetensors(const std::filesystem::path& path,
                                               std::span<const NamedTensor> tensors) {
  std::vector<SafetensorsEntry> entries;
  std::set<std::string_view> names;
  for (const auto& named : tensors) {
    check_writable(path, named);
    if (!names.insert(named.name).second) fail_safetensors({path, named.name}, "is given twice");
    entries.push_back(
        {named.name, named.tensor.scalar_type(), named.tensor.sizes().vec(), 0, 0, {}});
  }
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return c10::elementSize(entries[a].dtype) > c10::elementSize(entries[b].dtype);
  });
  std::uint64_t end = 0;
  for (const std::size_t index : order) {
    auto& entry = entries[index];
    entry.begin = end;
    end = entry.end = checked_add(end, safetensors_byte_size(entry.shape, entry.dtype));
  }
  return entries;
}

}  // namespace

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const NamedTensor> tensors) {
  const auto entries = plan_safetensors(path, tensors);
  const std::string header = format_safetensors_header(path, entries);
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
  const auto listing = read_safetensors_header(file, path, crc32);
  std::vector<NamedTensor> tensors(listing.tensors.size());
  for (const std::size_t index : order_of_data(listing.tensors)) {
    const auto& entry = listing.tensors[index];
    tensors[index] = {entry.name, read_tensor(file, path, entry)};
    if (crc32 != nullptr) *crc32 = checksum(*crc32, bytes_of(tensors[index].tensor));
  }
  return tensors;
}

std::vector<NamedTensor> read_chosen_safetensors(
    const std::filesystem::path& path,
    const std::function<bool(const SafetensorsEntry&)>& is_wanted) {
  const FileDescriptor file = open_regular_file(path);
  const auto listing = read_safetensors_header(file, path);
  std::vector<NamedTensor> tensors;
  for (const auto& entry : listing.tensors) {
    if (!is_wanted(entry)) continue;
    const auto begin = narrow<off_t>(listing.data_offset + entry.begin);
    if (::lseek(file.get(), begin, SEEK_SET) != begin)
      fail_safetensors({path, entry.name}, system_error_text("cannot go to its data", errno));
    tensors.push_back({entry.name, read_tensor(file, path, entry)});
  }
  return tensors;
}

}  // namespace kolo
