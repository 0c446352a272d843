#include "comm/shared_memory/reduce_kernels.h"

#include <algorithm>
#include <array>

#include "comm/shared_memory/reduce_elements.h"
#include "kolo/base/vectorize.h"

namespace kolo {

namespace {

using namespace reduction;

// Elements handled at a time: small enough for the accumulators to stay in the first-level cache.
constexpr std::int64_t block_elements = 1024;

template <typename T>
const T* element(const std::byte* base, std::int64_t index) {
  return reinterpret_cast<const T*>(base) + index;
}

template <typename T>
T* element(std::byte* base, std::int64_t index) {
  return reinterpret_cast<T*>(base) + index;
}

// Up to two destinations of two sources, what two ranks on a node need, without accumulators: each
// element passes through registers only. A destination is one of the sources or apart from both,
// never shifted against one, so the iterations are independent.
template <typename T, ReduceOp op>
KOLO_VECTORIZE void reduce_pair(std::span<const std::byte* const> sources,
                                std::span<std::byte* const> destinations, std::int64_t count,
                                int divisor) {
  const T* const first = element<T>(sources[0], 0);
  const T* const second = element<T>(sources[1], 0);
  T* const destination = element<T>(destinations.front(), 0);
  T* const other = element<T>(destinations.back(), 0);
  const auto factor = factor_of<T, op>(divisor);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const auto both = combine<T, op>(load<T, op>(first[i], factor), load<T, op>(second[i], factor));
    const T result = store<T>(finished<T, op>(both, divisor));
    put(destination[i], result);
    put(other[i], result);
  }
}

// Any number of sources and destinations, block by block. R: the type of the destinations.
template <typename T, typename R, ReduceOp op>
KOLO_VECTORIZE void reduce_blocks(std::span<const std::byte* const> sources,
                                  std::span<std::byte* const> destinations, std::int64_t count,
                                  int divisor) {
  const auto factor = factor_of<T, op>(divisor);
  std::array<Accumulator<T, op>, block_elements> sums;
  for (std::int64_t begin = 0; begin < count; begin += block_elements) {
    const auto length = std::min(block_elements, count - begin);
    const T* const first = element<T>(sources[0], begin);
    for (std::int64_t i = 0; i < length; ++i)
      sums[static_cast<std::size_t>(i)] = load<T, op>(first[i], factor);
    for (const std::byte* const source : sources.subspan(1)) {
      const T* const values = element<T>(source, begin);
      for (std::int64_t i = 0; i < length; ++i) {
        auto& sum = sums[static_cast<std::size_t>(i)];
        sum = combine<T, op>(sum, load<T, op>(values[i], factor));
      }
    }
    R* const result = element<R>(destinations[0], begin);
    for (std::int64_t i = 0; i < length; ++i)
      put(result[i], store<R>(finished<T, op>(sums[static_cast<std::size_t>(i)], divisor)));
    for (std::byte* const destination : destinations.subspan(1))
      std::copy_n(result, length, element<R>(destination, begin));
  }
}

template <typename T, ReduceOp op>
void reduce_typed(std::span<const std::byte* const> sources,
                  std::span<std::byte* const> destinations, std::int64_t count, int divisor) {
  if (sources.size() == 2 && (destinations.size() == 1 || destinations.size() == 2))
    reduce_pair<T, op>(sources, destinations, count, divisor);
  else
    reduce_blocks<T, T, op>(sources, destinations, count, divisor);
}

template <typename T, typename R>
void reduce_between(ReduceOp op, std::span<const std::byte* const> sources, std::byte* destination,
                    std::int64_t count, int divisor) {
  const std::span destinations(&destination, 1);
  if (op == ReduceOp::sum)
    reduce_blocks<T, R, ReduceOp::sum>(sources, destinations, count, divisor);
  else if (op == ReduceOp::average)
    reduce_blocks<T, R, ReduceOp::average>(sources, destinations, count, divisor);
  else
    reduce_blocks<T, R, ReduceOp::product>(sources, destinations, count, divisor);
}

}  // namespace

void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::int64_t count, int divisor) {
  with_reduction(type, op, [&]<typename T, ReduceOp as>() {
    reduce_typed<T, as>(sources, destinations, count, divisor);
  });
}

bool needs_wide_partials(DataType type, ReduceOp op) {
  if (type == DataType::float16 || type == DataType::bfloat16)
    return op != ReduceOp::min && op != ReduceOp::max;
  return op == ReduceOp::average && type > DataType::bfloat16;  // integers
}

void reduce(DataType from, DataType to, ReduceOp op, std::span<const std::byte* const> sources,
            std::byte* destination, std::int64_t count, int divisor) {
  if (from == DataType::float16)
    return reduce_between<Float16, float>(op, sources, destination, count, divisor);
  if (from == DataType::bfloat16)
    return reduce_between<BFloat16, float>(op, sources, destination, count, divisor);
  if (to == DataType::float16)
    return reduce_between<float, Float16>(op, sources, destination, count, divisor);
  return reduce_between<float, BFloat16>(op, sources, destination, count, divisor);
}

}  // namespace kolo
