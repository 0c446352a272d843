#include "data/sample_kernels.h"

namespace kolo::samples {

void make_images(const ImageBatch& batch) {
  const std::int32_t size = batch.channels * batch.height * batch.width;
  for (std::int64_t sample = 0; sample < batch.samples; ++sample) {
    const std::byte* const packed = batch.packed + sample * batch.packed_bytes;
    float* const out = batch.out + sample * size;
    for (std::int32_t i = 0; i < size; ++i) {
      out[i] = batch.byte_divisor != 0 ? pixel_of<std::uint8_t>(batch, packed, i)
                                       : pixel_of<float>(batch, packed, i);
    }
  }
}

void make_crops(const CropBatch& batch) {
  const auto* const crops = reinterpret_cast<const PackedCrop*>(batch.packed);
  const auto size = batch.crop;
  float* out = batch.out;
  for (std::int64_t sample = 0; sample < batch.samples; ++sample) {
    for (std::int64_t channel = 0; channel < batch.channels; ++channel) {
      for (std::int64_t cell = 0; cell < size * size * size; ++cell) {
        const std::int64_t place[3] = {cell / (size * size), cell / size % size, cell % size};
        *out++ = crop_value(batch, crops[sample], channel, place);
      }
    }
  }
}

}  // namespace kolo::samples
