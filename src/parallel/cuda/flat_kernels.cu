#include <string>

#include <cuda_runtime.h>

#include "base/cuda/block_total.h"
#include "base/cuda/packs.h"
#include "kolo/base/error.h"
#include "parallel/kernels.h"

namespace kolo::parallel {

namespace {

void require_workspace(const char* pass, std::size_t bytes, std::size_t needed) {
  if (bytes >= needed) return;
  throw Error(std::string("parallel: ") + pass + " on a device with a workspace of " +
              std::to_string(bytes) + " bytes, expected " + std::to_string(needed));
}

// Sums of squares.

template <typename T>
struct Square {
  const T* values;
  __device__ double operator()(std::size_t i) const {
    const auto value = static_cast<double>(values[i]);
    return value * value;
  }
};

struct Sum {
  __device__ double operator()(double a, double b) const { return a + b; }
};

template <typename T>
__global__ void __launch_bounds__(cuda::block_threads)
    squares_kernel(std::size_t size, const T* values, double* totals) {
  cuda::chunk_totals(size, 0., Square<T>{values}, Sum(), totals);
}

__global__ void __launch_bounds__(cuda::block_threads)
    total_kernel(std::size_t chunks, const double* totals, double* total) {
  const double sum = cuda::total_of_chunks(chunks, 0., totals, Sum());
  if (threadIdx.x == 0) *total += sum;
}

// Passes in packs.

template <typename T>
__global__ void __launch_bounds__(cuda::block_threads)
    all_bits_kernel(const T* values, cuda::Cut<T> cut, T mask, std::int32_t* found) {
  bool is_found = false;
  cuda::for_each_pack(cut, [&]<int width>(std::size_t index) {
    const auto pack = cuda::load<width>(values + index);
#pragma unroll
    for (int k = 0; k < width; ++k) is_found = is_found || (pack.values[k] & mask) == mask;
  });
  if (is_found) *found = 1;  // whoever else writes it writes the same
}

}  // namespace

template <typename T>
void add_squares_on_device(double* total, std::span<const T> values, std::span<std::byte> workspace,
                           void* stream) {
  require_workspace("a norm", workspace.size(), squares_workspace_bytes(values.size()));
  if (values.empty()) return;
  auto* const totals = reinterpret_cast<double*>(workspace.data());
  const std::size_t chunks = reduction::chunks_of(values.size());
  cuda::launch("parallel", "norm of chunks", squares_kernel<T>, cuda::blocks_for(chunks, 1),
               cuda::block_threads, stream, values.size(), values.data(), totals);
  cuda::launch("parallel", "norm", total_kernel, 1, cuda::block_threads, stream, chunks, totals,
               total);
}

template <typename T>
void find_all_bits_on_device(std::span<const T> values, T mask, std::int32_t* found, void* stream) {
  if (values.empty()) return;
  const auto cut = cuda::cut<T, 1>(values.size(), {values.data()});
  cuda::launch("parallel", "all bits", all_bits_kernel<T>, cut.blocks(), cuda::block_threads,
               stream, values.data(), cut, mask, found);
}

KOLO_INSTANTIATE_FLAT_KERNELS

}  // namespace kolo::parallel
