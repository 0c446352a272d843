#include "comm/cuda/reduce_kernels.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "base/cuda/launch.h"
#include "base/cuda/packs.h"
#include "comm/shared_memory/reduce_elements.h"

// Compiled with -fmad=false, so that elements become the same as on the host.
namespace kolo {

namespace {

template <typename T>
struct Sources {
  const T* at[DeviceReduction::most_sources];
  int count;
};

// A thread adds up its elements in the order of the sources.
template <typename T, ReduceOp op>
__global__ void __launch_bounds__(cuda::block_threads)
    reduce_kernel(Sources<T> sources, T* result, cuda::Cut<T> cut, int divisor) {
  using Sum = reduction::Accumulator<T, op>;
  const auto factor = reduction::factor_of<T, op>(divisor);
  cuda::for_each_pack(cut, [&]<int width>(std::size_t index) {
    Sum sums[width];
    const auto first = cuda::load<width>(sources.at[0] + index);
#pragma unroll
    for (int k = 0; k < width; ++k) sums[k] = reduction::load<T, op>(first.values[k], factor);
    for (int source = 1; source < sources.count; ++source) {
      const auto values = cuda::load<width>(sources.at[source] + index);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const auto value = reduction::load<T, op>(values.values[k], factor);
        sums[k] = reduction::combine<T, op>(sums[k], value);
      }
    }
    cuda::Pack<T, width> results;
#pragma unroll
    for (int k = 0; k < width; ++k)
      results.values[k] = reduction::store<T>(reduction::finished<T, op>(sums[k], divisor));
    cuda::store<width>(result + index, results);
  });
}

template <typename T, ReduceOp op>
void launch(const DeviceReduction& reduction, cudaStream_t stream) {
  Sources<T> sources{};
  std::array<const T*, DeviceReduction::most_sources + 1> buffers;
  T* const result = reinterpret_cast<T*>(reduction.result);
  buffers.fill(result);
  sources.count = static_cast<int>(reduction.sources.size());
  for (std::size_t i = 0; i < reduction.sources.size(); ++i)
    sources.at[i] = buffers[i] = reinterpret_cast<const T*>(reduction.sources[i]);
  const auto cut = cuda::cut<T>(static_cast<std::size_t>(reduction.count), buffers);
  reduce_kernel<T, op>
      <<<cut.blocks(), cuda::block_threads, 0, stream>>>(sources, result, cut, reduction.divisor);
}

}  // namespace

void reduce_on_cuda(const DeviceReduction& reduction, cudaStream_t stream) {
  if (reduction.count == 0) return;
  reduction::with_reduction(reduction.type, reduction.op,
                            [&]<typename T, ReduceOp op>() { launch<T, op>(reduction, stream); });
  cuda::check_launch("comm", "reduce");
}

}  // namespace kolo
