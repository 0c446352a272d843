#include "comm/shared_memory/reduce_kernels.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "comm/shared_memory/half.h"
#include "kolo/base/vectorize.h"

namespace kolo {

namespace {

// The type in which values of a stored type are added up.
template <typename T>
struct AccumulatorOf {
  // Unsigned, so that overflow wraps round instead of being undefined; comparisons convert back.
  using Type = std::make_unsigned_t<T>;
};
template <>
struct AccumulatorOf<float> {
  using Type = float;
};
template <>
struct AccumulatorOf<double> {
  using Type = double;
};
template <>
struct AccumulatorOf<Float16> {
  using Type = float;
};
template <>
struct AccumulatorOf<BFloat16> {
  using Type = float;
};
template <typename T>
using Accumulator = typename AccumulatorOf<T>::Type;

template <typename T>
inline Accumulator<T> load(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return to_float(value);
  else
    return static_cast<Accumulator<T>>(value);
}

template <typename T>
inline T store(Accumulator<T> value) {
  if constexpr (std::is_same_v<T, Float16>)
    return to_float16(value);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else
    return static_cast<T>(value);
}

// place = value; the vectoriser takes no copies of structures.
template <typename T>
inline void put(T& place, T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    place.bits = value.bits;
  else
    place = value;
}

template <typename T, ReduceOp op>
inline Accumulator<T> combine(Accumulator<T> a, Accumulator<T> b) {
  if constexpr (op == ReduceOp::min || op == ReduceOp::max) {
    // Compared in the stored type where that is signed. A NaN wins: it must not vanish in a
    // reduction.
    using Compared = std::conditional_t<std::is_integral_v<T>, T, Accumulator<T>>;
    const auto x = static_cast<Compared>(a), y = static_cast<Compared>(b);
    if constexpr (op == ReduceOp::min)
      return (y < x || y != y) ? b : a;
    else
      return (x < y || y != y) ? b : a;
  } else if constexpr (op == ReduceOp::product) {
    return static_cast<Accumulator<T>>(a * b);
  } else {
    return static_cast<Accumulator<T>>(a + b);
  }
}

template <typename T>
inline Accumulator<T> divided(Accumulator<T> value, int divisor, Accumulator<T> reciprocal) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Accumulator<T>>(static_cast<T>(value) / static_cast<std::int64_t>(divisor));
  } else {
    return value * reciprocal;
  }
}

template <typename T>
Accumulator<T> reciprocal_of(int divisor) {
  if constexpr (std::is_integral_v<T>)
    return 1;
  else
    return Accumulator<T>{1} / static_cast<Accumulator<T>>(divisor);
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
template <typename T, ReduceOp op, bool is_divided>
[[gnu::always_inline]] inline void reduce_two(const T* first, const T* second, T* destination,
                                              T* other, std::int64_t count, int divisor) {
  const auto reciprocal = reciprocal_of<T>(divisor);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    auto sum = combine<T, op>(load(first[i]), load(second[i]));
    if constexpr (is_divided) sum = divided<T>(sum, divisor, reciprocal);
    const T result = store<T>(sum);
    put(destination[i], result);
    put(other[i], result);
  }
}

template <typename T, ReduceOp op>
KOLO_VECTORIZE void reduce_pair(std::span<const std::byte* const> sources,
                                std::span<std::byte* const> destinations, std::int64_t count,
                                int divisor) {
  const T* const first = element<T>(sources[0], 0);
  const T* const second = element<T>(sources[1], 0);
  T* const destination = element<T>(destinations.front(), 0);
  T* const other = element<T>(destinations.back(), 0);
  if (divisor == 1)
    reduce_two<T, op, false>(first, second, destination, other, count, divisor);
  else
    reduce_two<T, op, true>(first, second, destination, other, count, divisor);
}

// Any number of sources and destinations, block by block.
template <typename T, ReduceOp op>
KOLO_VECTORIZE void reduce_blocks(std::span<const std::byte* const> sources,
                                  std::span<std::byte* const> destinations, std::int64_t count,
                                  int divisor) {
  const auto reciprocal = reciprocal_of<T>(divisor);
  std::array<Accumulator<T>, block_elements> sums;
  for (std::int64_t begin = 0; begin < count; begin += block_elements) {
    const auto length = std::min(block_elements, count - begin);
    const T* const first = element<T>(sources[0], begin);
    for (std::int64_t i = 0; i < length; ++i) sums[static_cast<std::size_t>(i)] = load(first[i]);
    for (const std::byte* const source : sources.subspan(1)) {
      const T* const values = element<T>(source, begin);
      for (std::int64_t i = 0; i < length; ++i) {
        auto& sum = sums[static_cast<std::size_t>(i)];
        sum = combine<T, op>(sum, load(values[i]));
      }
    }
    if (divisor != 1) {
      for (std::int64_t i = 0; i < length; ++i) {
        auto& sum = sums[static_cast<std::size_t>(i)];
        sum = divided<T>(sum, divisor, reciprocal);
      }
    }
    T* const result = element<T>(destinations[0], begin);
    for (std::int64_t i = 0; i < length; ++i)
      put(result[i], store<T>(sums[static_cast<std::size_t>(i)]));
    for (std::byte* const destination : destinations.subspan(1))
      std::copy_n(result, length, element<T>(destination, begin));
  }
}

template <typename T, ReduceOp op>
void reduce_typed(std::span<const std::byte* const> sources,
                  std::span<std::byte* const> destinations, std::int64_t count, int divisor) {
  if (sources.size() == 2 && (destinations.size() == 1 || destinations.size() == 2))
    reduce_pair<T, op>(sources, destinations, count, divisor);
  else
    reduce_blocks<T, op>(sources, destinations, count, divisor);
}

template <typename Function>
void with_stored_type(DataType type, const Function& function) {
  switch (type) {
    case DataType::float64:
      return function(double{});
    case DataType::float32:
      return function(float{});
    case DataType::float16:
      return function(Float16{});
    case DataType::bfloat16:
      return function(BFloat16{});
    case DataType::int64:
      return function(std::int64_t{});
    case DataType::int32:
      return function(std::int32_t{});
    case DataType::int16:
      return function(std::int16_t{});
    case DataType::int8:
      return function(std::int8_t{});
    case DataType::uint8:
    case DataType::boolean:
      return function(std::uint8_t{});
  }
}

}  // namespace

void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::int64_t count, int divisor) {
  // Of zeros and ones the maximum is the logical or, the minimum the logical and.
  if (type == DataType::boolean && op == ReduceOp::sum) op = ReduceOp::max;
  if (type == DataType::boolean && op == ReduceOp::product) op = ReduceOp::min;
  with_stored_type(type, [&](auto zero) {
    using T = decltype(zero);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        return reduce_typed<T, ReduceOp::sum>(sources, destinations, count, divisor);
      case ReduceOp::min:
        return reduce_typed<T, ReduceOp::min>(sources, destinations, count, divisor);
      case ReduceOp::max:
        return reduce_typed<T, ReduceOp::max>(sources, destinations, count, divisor);
      case ReduceOp::product:
        return reduce_typed<T, ReduceOp::product>(sources, destinations, count, divisor);
    }
  });
}

void divide(DataType type, std::byte* values, std::int64_t count, int divisor) {
  if (divisor == 1) return;
  const std::byte* const source = values;
  reduce(type, ReduceOp::sum, std::span(&source, 1), std::span(&values, 1), count, divisor);
}

}  // namespace kolo
