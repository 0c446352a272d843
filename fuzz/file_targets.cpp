#include <cstdlib>
#include <utility>
#include <vector>

#include "fuzz_targets.h"
#include "kolo/base/error.h"
#include "kolo/data/array_file.h"
#include "kolo/data/cifar10.h"
#include "kolo/data/mnist.h"
#include "memory_file.h"

namespace kolo::fuzz {

void read_idx(std::span<const std::byte> file) {
  const MemoryFile memory(file);
  try {
    const IdxArray array = kolo::read_idx(memory.path());
    std::int64_t elements = 1;
    for (const auto dimension : array.dimensions) elements *= dimension;
    if (std::cmp_not_equal(array.bytes.size(), elements)) std::abort();
  } catch (const InputError&) {
  }
}

void read_cifar10(std::span<const std::byte> file) {
  static MemoryFolder folder(cifar10_batch_files(Split::validation).front());
  folder.assign(file);
  try {
    const Cifar10Dataset dataset(folder.path(), Split::validation);
    std::vector<float> input(cifar10_pixel_bytes);
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      std::int64_t label = -1;
      dataset.read(i, 0, {input, {&label, 1}, {}});
      if (label < 0 || label >= cifar10_classes) std::abort();
    }
  } catch (const InputError&) {
  }
}

void read_npy(std::span<const std::byte> file) {
  const MemoryFile memory(file);
  try {
    const NpyHeader header = read_npy_header(memory.path());
    auto bytes = static_cast<std::size_t>(header.type.bytes);
    for (const auto dimension : header.shape) {
      if (dimension < 0) std::abort();
      bytes *= static_cast<std::size_t>(dimension);
    }
    if (static_cast<std::size_t>(header.data_offset) + bytes != file.size()) std::abort();
  } catch (const InputError&) {
  }
}

}  // namespace kolo::fuzz
