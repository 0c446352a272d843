#pragma once

#include "base/cuda/launch.h"
#include "base/reduction_order.h"

// Sums on CUDA devices, in the order of base/reduction_order.h.
namespace kolo::cuda {

static_assert(block_threads == reduction::lanes);

// The total of a block's lanes, for thread 0; all threads of the block take part.
template <typename Value, typename Add>
__device__ inline Value block_total(Value own, const Add& add) {
  __shared__ Value totals[block_threads];
  totals[threadIdx.x] = own;
  for (unsigned half = block_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      totals[threadIdx.x] = add(totals[threadIdx.x], totals[threadIdx.x + half]);
  }
  const Value total = threadIdx.x == 0 ? totals[0] : own;
  __syncthreads();  // the next total takes the same memory
  return total;
}

// Totals of the chunks, each by one block.
template <typename Value, typename Term, typename Add>
__device__ inline void chunk_totals(std::size_t terms, Value none, const Term& term, const Add& add,
                                    Value* totals) {
  const std::size_t chunks = reduction::chunks_of(terms);
  for (std::size_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const std::size_t begin = chunk * reduction::chunk_terms;
    const std::size_t end =
        begin + reduction::chunk_terms < terms ? begin + reduction::chunk_terms : terms;
    const Value own = reduction::lane_total(begin, end, threadIdx.x, none, term, add);
    const Value total = block_total(own, add);
    if (threadIdx.x == 0) totals[chunk] = total;
  }
}

// The total of all chunks, by one block, for its thread 0.
template <typename Value, typename Add>
__device__ inline Value total_of_chunks(std::size_t chunks, Value none, const Value* totals,
                                        const Add& add) {
  const auto term = [&](std::size_t chunk) { return totals[chunk]; };
  return block_total(reduction::lane_total(std::size_t{0}, chunks, threadIdx.x, none, term, add),
                     add);
}

}  // namespace kolo::cuda
