#include <cstdlib>
#include <string>

#include "fuzz_targets.h"
#include "kolo/base/error.h"
#include "kolo/train/checkpoint/safetensors_listing.h"
#include "memory_file.h"
#include "train/checkpoint/manifest.h"

namespace kolo::fuzz {

// Damaged checkpoints are an Error, not an InputError: they may be no fault of the user.
void read_safetensors(std::span<const std::byte> file) {
  const MemoryFile memory(file);
  try {
    const auto listing = list_safetensors(memory.path());
    auto bytes = listing.data_offset;
    for (const auto& entry : listing.tensors) {
      std::uint64_t elements = 1;
      for (const auto dimension : entry.shape) elements *= static_cast<std::uint64_t>(dimension);
      if (entry.is_readable() &&
          entry.end - entry.begin != elements * c10::elementSize(entry.dtype))
        std::abort();
      bytes += entry.end - entry.begin;
    }
    if (bytes != file.size()) std::abort();
  } catch (const Error&) {
  }
}

void read_manifest(std::span<const std::byte> file) {
  static MemoryFolder folder(manifest_file_name);
  folder.assign(file);
  try {
    const auto manifest = kolo::read_manifest(folder.path());
    if (!has_manifest(folder.path()) || manifest.files.empty()) std::abort();
    verify_sizes(folder.path(), manifest);
  } catch (const Error&) {
  }
}

}  // namespace kolo::fuzz
