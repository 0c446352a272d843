#include "comm/shared_memory/reduce_kernels.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "comm/with_type.h"
#include "kolo/base/vectorize.h"

namespace kolo {

namespace {

// Holds the sum of 2^63 of the widest integers.
__extension__ typedef __int128 WidestInteger;

// A zero of the type in which values of a stored type are reduced: of integers an unsigned one, so
// that overflow wraps round instead of being undefined (comparisons convert back).
template <typename T, ReduceOp op>
constexpr auto zero_to_reduce_to() {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return float{0};
  else if constexpr (std::is_floating_point_v<T>)
    return T{0};
  else if constexpr (op == ReduceOp::average)
    return std::conditional_t<sizeof(T) == 8, WidestInteger, std::int64_t>{0};
  else
    return std::make_unsigned_t<T>{0};
}
template <typename T, ReduceOp op>
using Accumulator = decltype(zero_to_reduce_to<T, op>());

// A source's value as it goes into the reduction; `factor` is 1/divisor, of integers unused.
template <typename T, ReduceOp op>
KOLO_INLINE inline Accumulator<T, op> load(T value, Accumulator<T, op> factor) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return op == ReduceOp::average ? to_float(value) * factor : to_float(value);
  else if constexpr (op == ReduceOp::average && std::is_floating_point_v<T>)
    return value * factor;
  else
    return static_cast<Accumulator<T, op>>(value);
}

// Result of a reduction, in the result's type.
template <typename R, typename A>
KOLO_INLINE inline R store(A value) {
  if constexpr (std::is_same_v<R, Float16>)
    return to_float16(value);
  else if constexpr (std::is_same_v<R, BFloat16>)
    return to_bfloat16(value);
  else
    return static_cast<R>(value);
}

// to = value; the vectorizer takes no copies of structures.
template <typename T>
KOLO_INLINE inline void put(T& to, T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    to.bits = value.bits;
  else
    to = value;
}

template <typename T, ReduceOp op>
KOLO_INLINE inline Accumulator<T, op> combine(Accumulator<T, op> a, Accumulator<T, op> b) {
  if constexpr (op == ReduceOp::min || op == ReduceOp::max) {
    // Compared in the stored type where that is signed. A NaN wins: it must not vanish in a
    // reduction.
    using Compared = std::conditional_t<std::is_integral_v<T>, T, Accumulator<T, op>>;
    const auto x = static_cast<Compared>(a), y = static_cast<Compared>(b);
    if constexpr (op == ReduceOp::min)
      return (y < x || y != y) ? b : a;
    else
      return (x < y || y != y) ? b : a;
  } else if constexpr (op == ReduceOp::product) {
    return static_cast<Accumulator<T, op>>(a * b);
  } else {
    return static_cast<Accumulator<T, op>>(a + b);
  }
}

// An average of integers is still their sum.
template <typename T, ReduceOp op>
KOLO_INLINE inline Accumulator<T, op> finished(Accumulator<T, op> value, int divisor) {
  if constexpr (op == ReduceOp::average && std::is_integral_v<T>)
    return value / divisor;
  else
    return value;
}

template <typename T, ReduceOp op>
KOLO_INLINE inline Accumulator<T, op> factor_of(int divisor) {
  if constexpr (std::is_integral_v<T>)
    return 1;
  else
    return Accumulator<T, op>{1} / static_cast<Accumulator<T, op>>(divisor);
}

template <typename T, typename Function>
void with_op(ReduceOp op, const Function& function) {
  switch (op) {
    case ReduceOp::sum:
      return function.template operator()<T, ReduceOp::sum>();
    case ReduceOp::average:
      return function.template operator()<T, ReduceOp::average>();
    case ReduceOp::min:
      return function.template operator()<T, ReduceOp::min>();
    case ReduceOp::max:
      return function.template operator()<T, ReduceOp::max>();
    case ReduceOp::product:
      return function.template operator()<T, ReduceOp::product>();
  }
}

// Calls function.operator()<T, op>() with the type in which elements are stored. Of zeros and ones
// the maximum is the logical or, the minimum the logical and.
template <typename Function>
void with_reduction(DataType type, ReduceOp op, const Function& function) {
  if (type == DataType::boolean && op == ReduceOp::sum) op = ReduceOp::max;
  if (type == DataType::boolean && op == ReduceOp::product) op = ReduceOp::min;
  with_type(type, [&](auto element) { with_op<decltype(element)>(op, function); });
}

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
  if (from == to) return reduce(from, op, sources, std::span(&destination, 1), count, divisor);
  if (from == DataType::float16)
    return reduce_between<Float16, float>(op, sources, destination, count, divisor);
  if (from == DataType::bfloat16)
    return reduce_between<BFloat16, float>(op, sources, destination, count, divisor);
  if (to == DataType::float16)
    return reduce_between<float, Float16>(op, sources, destination, count, divisor);
  return reduce_between<float, BFloat16>(op, sources, destination, count, divisor);
}

}  // namespace kolo
