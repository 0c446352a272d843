#include "data/sample_kernels.h"

#include <algorithm>

#include <cuda_runtime.h>

#include "base/cuda/launch.h"

// Compiled with -fmad=false, so that pixels become the same as on the host.
namespace kolo::samples {

namespace {

constexpr std::int64_t most_in_grid = 65535;  // of its second and third dimension

unsigned grid_of(std::int64_t count) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(count, 1, most_in_grid));
}

template <typename Pixel>
__global__ void __launch_bounds__(cuda::block_threads) images_kernel(ImageBatch batch) {
  const std::int32_t size = batch.channels * batch.height * batch.width;
  for (std::int64_t sample = blockIdx.y; sample < batch.samples; sample += gridDim.y) {
    const std::byte* const packed = batch.packed + sample * batch.packed_bytes;
    float* const out = batch.out + sample * size;
    for (std::int64_t i = blockIdx.x * cuda::block_threads + threadIdx.x; i < size;
         i += static_cast<std::int64_t>(gridDim.x) * cuda::block_threads)
      out[i] = pixel_of<Pixel>(batch, packed, static_cast<std::int32_t>(i));
  }
}

// A block makes a cube of the result, so that whichever axis becomes the rows, it reads and writes
// whole sectors of memory.
constexpr int tile = 8, tile_planes = 4;

__global__ void __launch_bounds__(tile* tile* tile_planes)
    crops_kernel(CropBatch batch, std::int64_t tiles) {
  const std::int64_t size = batch.crop;
  const std::int64_t first[3] = {blockIdx.x / (tiles * tiles) * tile,
                                 blockIdx.x / tiles % tiles * tile, blockIdx.x % tiles * tile};
  const std::int64_t channel = blockIdx.y;
  for (std::int64_t sample = blockIdx.z; sample < batch.samples; sample += gridDim.z) {
    const auto& crop = reinterpret_cast<const PackedCrop*>(batch.packed)[sample];
    float* const out = batch.out + (sample * batch.channels + channel) * size * size * size;
    for (int plane = static_cast<int>(threadIdx.z); plane < tile; plane += tile_planes) {
      const std::int64_t cell[3] = {first[0] + plane, first[1] + threadIdx.y,
                                    first[2] + threadIdx.x};
      if (cell[0] >= size || cell[1] >= size || cell[2] >= size) continue;
      out[(cell[0] * size + cell[1]) * size + cell[2]] = crop_value(batch, crop, channel, cell);
    }
  }
}

}  // namespace

void enqueue_images(const ImageBatch& batch, void* stream) {
  const auto size = static_cast<std::size_t>(batch.channels) *
                    static_cast<std::size_t>(batch.height) * static_cast<std::size_t>(batch.width);
  if (batch.samples == 0) return;
  const dim3 grid(cuda::blocks_for(size), grid_of(batch.samples));
  const auto kernel = batch.byte_divisor != 0 ? images_kernel<std::uint8_t> : images_kernel<float>;
  cuda::launch("data", "images_kernel", kernel, grid, cuda::block_threads, stream, batch);
}

void enqueue_crops(const CropBatch& batch, void* stream) {
  if (batch.samples == 0) return;
  const std::int64_t tiles = (batch.crop + tile - 1) / tile;
  const dim3 grid(static_cast<unsigned>(tiles * tiles * tiles),
                  static_cast<unsigned>(batch.channels), grid_of(batch.samples));
  cuda::launch("data", "crops_kernel", crops_kernel, grid, dim3(tile, tile, tile_planes), stream,
               batch, tiles);
}

}  // namespace kolo::samples
