#include <algorithm>
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

// Checksums.

constexpr std::size_t row_bytes = checksum_lanes * sizeof(std::uint32_t);

// Word of bytes at any address, with zeros behind the last.
__device__ std::uint32_t word_at(const std::byte* bytes, std::size_t offset, std::size_t size) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < sizeof word && offset + i < size; ++i)
    word |= static_cast<std::uint32_t>(bytes[offset + i]) << (8 * i);
  return word;
}

__device__ std::uint32_t lane_of_piece(const std::byte* bytes, std::size_t size, unsigned lane) {
  auto value = static_cast<std::uint32_t>(lane);
  std::size_t offset = lane * sizeof(std::uint32_t);
  if (reinterpret_cast<std::uintptr_t>(bytes) % sizeof(std::uint32_t) == 0) {
#pragma unroll 8
    for (std::size_t row = 0; row < size / row_bytes; ++row, offset += row_bytes)
      value = with_word(value, *reinterpret_cast<const std::uint32_t*>(bytes + offset));
  }
  const std::size_t row_begin = lane * sizeof(std::uint32_t);
  for (; offset - row_begin < size; offset += row_bytes)
    value = with_word(value, word_at(bytes, offset, size));
  return value;
}

struct SumOfWords {
  __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};

__global__ void __launch_bounds__(checksum_lanes)
    checksum_kernel(const std::byte* bytes, std::size_t size, std::size_t pieces,
                    std::uint64_t* checksums) {
  for (std::size_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const std::size_t begin = piece * checksum_piece_bytes;
    const std::size_t length =
        size - begin < checksum_piece_bytes ? size - begin : checksum_piece_bytes;
    const std::uint32_t lane = lane_of_piece(bytes + begin, length, threadIdx.x);
    const std::uint64_t sum =
        cuda::block_total<checksum_lanes>(lane_term(lane, threadIdx.x), SumOfWords());
    if (threadIdx.x == 0) checksums[piece] = checksum_of_lanes(sum, length);
  }
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

void checksum_on_device(std::span<const std::byte> bytes, std::uint64_t* result,
                        std::span<std::byte> workspace, void* stream) {
  require_workspace("a checksum", workspace.size(), checksum_workspace_bytes(bytes.size()));
  for (bool is_last = false; !is_last;) {
    const std::size_t pieces =
        std::max<std::size_t>(1, (bytes.size() + checksum_piece_bytes - 1) / checksum_piece_bytes);
    is_last = pieces == 1;
    auto* const checksums = is_last ? result : reinterpret_cast<std::uint64_t*>(workspace.data());
    cuda::launch("parallel", "checksum", checksum_kernel, cuda::blocks_for(pieces, 1),
                 checksum_lanes, stream, bytes.data(), bytes.size(), pieces, checksums);
    if (is_last) return;
    bytes = workspace.first(pieces * sizeof(std::uint64_t));
    workspace = workspace.subspan(bytes.size());
  }
}

}  // namespace kolo::parallel
