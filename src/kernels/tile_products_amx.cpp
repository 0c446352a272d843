#include "kernels/tile_products.h"

#include <array>
#include <bit>

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/transpose_avx512.h"
#include "kernels/bfloat16_vectors.h"
#include "kernels/products.h"

#define KOLO_AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))

namespace kolo::tile_products {

namespace {

bool has_instructions() {
  constexpr unsigned bf16 = 1U << 22, tiles = 1U << 24;  // of leaf 7, in EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & bf16) != 0 && (d & tiles) != 0 &&
         __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
}

// Asks the kernel for the tiles' state of 8 KiB a thread (Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr long request_permission = 0x1023, state_of_tiles = 18;
  return ::syscall(SYS_arch_prctl, request_permission, state_of_tiles) == 0;
}

// The 64 bytes that the instruction LDTILECFG reads.
struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{};
  std::array<std::uint8_t, 16> rows{};

  constexpr Configuration() {
    constexpr std::size_t tiles = 8;
    for (std::size_t i = 0; i < tiles; ++i) {
      row_bytes[i] = 64;
      rows[i] = 16;
    }
  }
};
static_assert(sizeof(Configuration) == 64);

constexpr Configuration whole_tiles;

// (GCC takes no such attribute for constructors.)
KOLO_AMX void configure() {
  _tile_loadconfig(&whole_tiles);
}

KOLO_AMX void release() {
  _tile_release();
}

// Sums stay in tiles 0 to 3; 4 and 5 are the left-hand factor, 6 and 7 the right-hand one.
template <bool HasLower, bool HasSecond>
KOLO_AMX void multiply_block(const Left& left, Right right, const Sums& sums) {
  constexpr std::int64_t bytes = 64;
  const auto stride = left.stride * std::int64_t{sizeof(BFloat16)};
  const auto sums_stride = sums.stride * std::int64_t{sizeof(float)};
  float* const lower_sums = sums.values + tile_lanes * sums.stride;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (sums.is_added) {
    _tile_loadd(0, sums.values, sums_stride);
    if constexpr (HasSecond) _tile_loadd(1, sums.values + tile_lanes, sums_stride);
    if constexpr (HasLower) _tile_loadd(2, lower_sums, sums_stride);
    if constexpr (HasLower && HasSecond) _tile_loadd(3, lower_sums + tile_lanes, sums_stride);
  }
  for (const std::int64_t shift : left.shifts) {
    for (std::int64_t chunk = 0; chunk < left.chunks; ++chunk) {
      const auto at = shift + chunk * tile_depth;
      // (Two steps ahead: 12 % faster where another thread uses the same core.)
      for (std::int64_t line = 0; line < tile_lanes; ++line) {
        _mm_prefetch(right.first + (2 * tile_lanes + line) * tile_depth, _MM_HINT_T0);
        if constexpr (HasSecond)
          _mm_prefetch(right.second + (2 * tile_lanes + line) * tile_depth, _MM_HINT_T0);
      }
      _tile_loadd(4, left.upper + at, stride);
      _tile_loadd(6, right.first, bytes);
      _tile_dpbf16ps(0, 4, 6);
      right.first += tile_values;
      if constexpr (HasLower) {
        _tile_loadd(5, left.lower + at, stride);
        _tile_dpbf16ps(2, 5, 6);
      }
      if constexpr (HasSecond) {
        _tile_loadd(7, right.second, bytes);
        _tile_dpbf16ps(1, 4, 7);
        right.second += tile_values;
      }
      if constexpr (HasLower && HasSecond) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums.values, sums_stride);
  if constexpr (HasSecond) _tile_stored(1, sums.values + tile_lanes, sums_stride);
  if constexpr (HasLower) _tile_stored(2, lower_sums, sums_stride);
  if constexpr (HasLower && HasSecond) _tile_stored(3, lower_sums + tile_lanes, sums_stride);
}

KOLO_AMX inline __m512i pair_of_rows(const float* row, std::int64_t stride) {
  return interleaved(rounded(_mm512_loadu_ps(row), _mm512_loadu_ps(row + stride)));
}

KOLO_AMX inline __m512i pair_of_rows(const BFloat16* row, std::int64_t stride) {
  return interleaved(joined(row, row + stride));
}

// Row by row, as memory is read faster in long stretches.
template <typename T>
KOLO_AMX void pack_rows(const T* rows, std::int64_t stride, std::int64_t columns, BFloat16* packed,
                        std::int64_t tile_stride) {
  for (std::int64_t row = 0; row < tile_depth; row += 2, rows += 2 * stride, packed += tile_depth) {
    auto* to = packed;
    for (std::int64_t column = 0; column < columns; column += tile_lanes, to += tile_stride)
      _mm512_storeu_si512(to, pair_of_rows(rows + column, stride));
  }
}

}  // namespace

bool are_supported() {
  static const bool are = has_instructions() && may_use_tiles();
  return are;
}

Tiles::Tiles() {
  configure();
}

Tiles::~Tiles() {
  release();
}

void multiply(const Left& left, const Right& right, const Sums& sums) {
  if (left.lower == nullptr)
    right.second == nullptr ? multiply_block<false, false>(left, right, sums)
                            : multiply_block<false, true>(left, right, sums);
  else
    right.second == nullptr ? multiply_block<true, false>(left, right, sums)
                            : multiply_block<true, true>(left, right, sums);
}

void pack(const float* rows, std::int64_t stride, std::int64_t columns, BFloat16* packed,
          std::int64_t tile_stride) {
  pack_rows(rows, stride, columns, packed, tile_stride);
}

void pack(const BFloat16* rows, std::int64_t stride, std::int64_t columns, BFloat16* packed,
          std::int64_t tile_stride) {
  pack_rows(rows, stride, columns, packed, tile_stride);
}

void pack_transposed(const float* rows, std::int64_t stride, BFloat16* packed) {
  bfloat16_products::pack_transposed(rows, stride, tile_depth, tile_lanes,
                                     reinterpret_cast<bfloat16_products::Pair*>(packed));
}

KOLO_AMX void transpose(const BFloat16* rows, std::int64_t stride, std::int64_t columns,
                        BFloat16* into, std::int64_t into_stride) {
  __m512i values[tile_lanes];
  for (std::int64_t column = 0; column < columns; column += tile_lanes) {
    for (std::int64_t i = 0; i < tile_lanes; ++i)
      values[i] = pair_of_rows(rows + 2 * i * stride + column, stride);
    transpose_16x16(values);
    for (std::int64_t i = 0; i < tile_lanes; ++i)
      _mm512_storeu_si512(into + (column + i) * into_stride, values[i]);
  }
}

KOLO_AMX void stream(const float* sums, std::int64_t rows, std::int64_t columns, float* into,
                     std::int64_t stride) {
  const bool is_aligned = std::bit_cast<std::uintptr_t>(into) % 64 == 0;
  for (std::int64_t row = 0; row < rows; ++row, sums += block_lanes, into += stride) {
    for (std::int64_t column = 0; column < columns; column += tile_lanes) {
      const auto values = _mm512_loadu_ps(sums + column);
      if (is_aligned)
        _mm512_stream_ps(into + column, values);
      else
        _mm512_storeu_ps(into + column, values);
    }
  }
  _mm_sfence();  // before others are told of it
}

KOLO_AMX void round_row(const float* sums, const float* bias, std::int64_t columns,
                        BFloat16* into) {
  const auto wanted = columns >= block_lanes ? ~__mmask32{0} : (__mmask32{1} << columns) - 1;
  auto low = _mm512_loadu_ps(sums), high = _mm512_loadu_ps(sums + tile_lanes);
  if (bias != nullptr) {
    const auto of_low = static_cast<__mmask16>(wanted),
               of_high = static_cast<__mmask16>(wanted >> 16);
    low = _mm512_add_ps(low, _mm512_maskz_loadu_ps(of_low, bias));
    high = _mm512_add_ps(high, _mm512_maskz_loadu_ps(of_high, bias + tile_lanes));
  }
  _mm512_mask_storeu_epi16(into, wanted, rounded(low, high));
}

}  // namespace kolo::tile_products
