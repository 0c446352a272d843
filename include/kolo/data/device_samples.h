#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <torch/types.h>

namespace kolo {

// Where what a device needs of one sample is written: places inside a batch, for the device half of
// its dataset. Places that the dataset does not fill are empty.
struct PackedPlace {
  std::span<std::byte> bytes;
  std::span<std::int64_t> label;
  std::span<float> target;
};

// How a dataset's samples are made on a device: the host packs what each is made of, random numbers
// included, and the device makes the whole batch, of the same bits as Dataset::read writes.
class DeviceSamples {
 public:
  virtual ~DeviceSamples() = default;
  // Of a sample; a multiple of 16.
  [[nodiscard]] virtual std::size_t packed_bytes() const = 0;
  // Targets are made on the device, too, and not packed.
  [[nodiscard]] virtual bool makes_targets() const = 0;
  // As Dataset::read: by any number of threads at once, with the same errors.
  virtual void pack(std::int64_t index, std::int64_t epoch, const PackedPlace& place) const = 0;

  struct Made {
    torch::Tensor input, target;  // the latter only with makes_targets()
  };
  // Of bytes [B, packed_bytes()] in the device's memory, in the thread's current stream.
  [[nodiscard]] virtual Made make(const torch::Tensor& packed) const = 0;
};

}  // namespace kolo
