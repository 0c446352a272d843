#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/named_tensor.h"
#include "kolo/train/checkpoint/safetensors_listing.h"

// Weights in the safetensors format (https://huggingface.co/docs/safetensors): eight bytes with the
// header's length, a JSON header with the dtype, shape and place of each tensor, the raw data.
// Nothing in such a file is code, and every tool reads it. dtypes: F64 F32 F16 BF16 I64 I32 I16 I8
// U8 BOOL.
namespace kolo {

struct WrittenFile {
  std::uint64_t size = 0;   // bytes
  std::uint32_t crc32 = 0;  // zlib's, of the memory that was written
};

// Writes the whole file or leaves the path as it was (AtomicFile), flushed to disk. Tensors may
// have any strides and device; one at a time is copied where it needs a copy. In the file larger
// element types come first, which keeps all of them aligned; the header keeps the given order.
// Error: an undefined or sparse tensor, another dtype, an empty, repeated or reserved
// ("__metadata__") name, a failed write.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const NamedTensor> tensors);

// Reads all tensors into memory of their own (CPU, contiguous, no gradient), in the order of the
// header. Error, naming the file, the tensor and the field: everything that list_safetensors()
// rejects, a tensor of another type, and a BOOL that is neither 0 nor 1. `crc32`, when given, gets
// the file's checksum (zlib's) on the way.
[[nodiscard]] std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path,
                                                        std::uint32_t* crc32 = nullptr);

// Reads the tensors that `is_wanted`; the others may be of any type.
[[nodiscard]] std::vector<NamedTensor> read_chosen_safetensors(
    const std::filesystem::path& path,
    const std::function<bool(const SafetensorsEntry&)>& is_wanted);

}  // namespace kolo
