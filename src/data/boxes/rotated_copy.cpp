#include "data/boxes/field_source.h"

#include <cstring>

#if defined(__x86_64__)
#include "base/transpose_avx512.h"
#endif

#include "kolo/base/vectorize.h"

namespace kolo {

namespace {

// Copies by vectors of 16 numbers, stored past the caches, for processors that have them. Lengths
// are multiples of `lanes`, addresses that are written to of 64 bytes. Only are_supported() may be
// called if it is false.
namespace wide_copies {

constexpr std::int64_t lanes = 16;

#if defined(__x86_64__)

#define KOLO_AVX512 __attribute__((target("avx512f")))

bool are_supported() {
  return __builtin_cpu_supports("avx512f");
}

// Copies a row whose numbers lie one after another, times a factor.
KOLO_AVX512 void copy_row(const float* in, std::int64_t size, float factor, bool is_backwards,
                          float* out) {
  const __m512 factors = _mm512_set1_ps(factor);
  const __m512i last_first = _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (std::int64_t k = 0; k < size; k += lanes) {
    const auto from = is_backwards ? size - lanes - k : k;
    __m512 values = _mm512_mul_ps(factors, _mm512_loadu_ps(in + from));
    if (is_backwards) values = _mm512_permutexvar_ps(last_first, values);
    _mm512_stream_ps(out + k, values);
  }
}

// out[column * out_stride + row] = factor * in[row * in_stride + column], of 16 rows and so many
// columns. Strides may be negative.
KOLO_AVX512 void transpose_rows(const float* in, std::int64_t in_stride, std::int64_t columns,
                                float factor, float* out, std::int64_t out_stride) {
  const __m512 factors = _mm512_set1_ps(factor);
  for (std::int64_t column = 0; column < columns; column += lanes) {
    __m512i block[lanes];
    for (std::int64_t row = 0; row < lanes; ++row) {
      block[row] = _mm512_castps_si512(
          _mm512_mul_ps(factors, _mm512_loadu_ps(in + row * in_stride + column)));
    }
    transpose_16x16(block);
    for (std::int64_t i = 0; i < lanes; ++i)
      _mm512_stream_ps(out + (column + i) * out_stride, _mm512_castsi512_ps(block[i]));
  }
}

// Orders streamed stores before later ones, which tell other threads that they are done.
void finish() {
  _mm_sfence();
}

#else

constexpr bool are_supported() {
  return false;
}
void copy_row(const float*, std::int64_t, float, bool, float*) {}
void transpose_rows(const float*, std::int64_t, std::int64_t, float, float*, std::int64_t) {}
void finish() {}

#endif

}  // namespace wide_copies

// Numbers of a row, `stride` apart in memory, times a factor, forwards or backwards.
KOLO_VECTORIZE void copy_row(const float* in, std::int64_t stride, std::int64_t size, float factor,
                             bool is_backwards, float* out) {
  if (is_backwards) {
    if (stride == 1) {
      for (std::int64_t k = 0; k < size; ++k) out[size - 1 - k] = factor * in[k];
    } else {
      for (std::int64_t k = 0; k < size; ++k) out[size - 1 - k] = factor * in[k * stride];
    }
  } else if (stride == 1) {
    for (std::int64_t k = 0; k < size; ++k) out[k] = factor * in[k];
  } else {
    for (std::int64_t k = 0; k < size; ++k) out[k] = factor * in[k * stride];
  }
}

// Four numbers at once, which every processor that kolo is built for has.
using Four = float __attribute__((vector_size(16)));

Four load(const float* in) {
  Four four;
  std::memcpy(&four, in, sizeof(four));
  return four;
}

void store(const Four& four, float* out) {
  std::memcpy(out, &four, sizeof(four));
}

// A block of 4 x 4, by halves that change places.
void transpose_block(const float* in, std::int64_t in_stride, float* out, std::int64_t out_stride) {
  const Four a = load(in), b = load(in + in_stride), c = load(in + 2 * in_stride),
             d = load(in + 3 * in_stride);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), out);
  store(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), out + out_stride);
  store(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), out + 2 * out_stride);
  store(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), out + 3 * out_stride);
}

// out[column * out_stride + row] = in[row * in_stride + column].
void transpose(const float* in, std::int64_t in_stride, std::int64_t rows, std::int64_t columns,
               float* out, std::int64_t out_stride) {
  const auto whole_rows = rows - rows % 4, whole_columns = columns - columns % 4;
  for (std::int64_t column = 0; column < whole_columns; column += 4) {
    for (std::int64_t row = 0; row < whole_rows; row += 4) {
      transpose_block(in + row * in_stride + column, in_stride, out + column * out_stride + row,
                      out_stride);
    }
  }
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t row = column < whole_columns ? whole_rows : 0; row < rows; ++row) {
      out[column * out_stride + row] = in[row * in_stride + column];
    }
  }
}

using Extent = std::array<std::int64_t, 3>;

// The axis of the crop that becomes the rows of the result.
std::size_t axis_of_rows(const CubeSymmetry& symmetry) {
  return symmetry.axis[2] == 2 ? 2 : symmetry.axis[1] == 2 ? 1 : 0;
}

// Strides of a crop's three axes in the result, and where its first cell goes.
struct Target {
  std::array<std::int64_t, 3> strides{};
  std::int64_t first = 0;

  Target(const CubeSymmetry& symmetry, const Extent& extent) {
    const auto length = turned(extent, symmetry);
    const std::array<std::int64_t, 3> of_axis{length[1] * length[2], length[2], 1};
    for (std::size_t j = 0; j < 3; ++j) {
      const auto stride = of_axis[static_cast<std::size_t>(symmetry.axis[j])];
      strides[j] = symmetry.sign[j] * stride;
      if (symmetry.sign[j] < 0) first += (extent[j] - 1) * stride;
    }
  }
};

// One channel of the crop and where it goes.
struct Channel {
  const float* in;
  float* out;  // where the first cell goes
  float factor;
};

// Rows of the crop stay rows of the result.
template <bool is_wide>
void copy_rows(const Channel& channel, const FieldView& view, const Extent& extent,
               const Target& target, std::int64_t i) {
  const auto size = extent[2];
  const bool is_backwards = target.strides[2] < 0;
  for (std::int64_t j = 0; j < extent[1]; ++j) {
    float* const out =
        channel.out + i * target.strides[0] + j * target.strides[1] - (is_backwards ? size - 1 : 0);
    const float* const in = channel.in + i * view.strides[1] + j * view.strides[2];
    if (is_wide)
      wide_copies::copy_row(in, size, channel.factor, is_backwards, out);
    else
      copy_row(in, view.strides[3], size, channel.factor, is_backwards, out);
  }
}

// Axis `fast` (0 or 1) of the crop becomes the rows of the result: plane by plane of it and the
// crop's rows, by way of a small plane, since the crop's own rows lie apart by strides that share
// one set of the processor's caches.
void copy_plane_transposed(const Channel& channel, const FieldView& view, const Extent& extent,
                           const Target& target, std::size_t fast, std::int64_t i,
                           std::span<float> plane) {
  const std::size_t slow = 1 - fast;
  const auto rows = extent[fast], columns = extent[2];
  const auto row_stride = static_cast<std::int64_t>(plane.size()) / rows;
  const bool is_backwards = target.strides[fast] < 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto to_row = is_backwards ? rows - 1 - row : row;
    copy_row(channel.in + i * view.strides[1 + slow] + row * view.strides[1 + fast],
             view.strides[3], columns, channel.factor, false, plane.data() + to_row * row_stride);
  }
  float* const out = channel.out + i * target.strides[slow] - (is_backwards ? rows - 1 : 0);
  transpose(plane.data(), row_stride, rows, columns, out, target.strides[2]);
}

// The same for all planes, straight from the crop: 16 of its lines at a time, in the order in which
// they lie in memory.
void copy_transposed_wide(const Channel& channel, const FieldView& view, const Extent& extent,
                          const Target& target, std::size_t fast) {
  const auto rows = extent[fast];
  constexpr auto lanes = wide_copies::lanes;
  const std::size_t slow = 1 - fast;
  const bool is_backwards = target.strides[fast] < 0;
  const auto stride = is_backwards ? -view.strides[1 + fast] : view.strides[1 + fast];
  const float* const first = channel.in + (is_backwards ? -(rows - 1) * stride : 0);
  float* const out = channel.out - (is_backwards ? rows - 1 : 0);
  for (std::int64_t row = 0; row < rows; row += lanes) {
    for (std::int64_t i = 0; i < extent[slow]; ++i) {
      wide_copies::transpose_rows(first + i * view.strides[1 + slow] + row * stride, stride,
                                  extent[2], channel.factor, out + i * target.strides[slow] + row,
                                  target.strides[2]);
    }
  }
}

template <bool is_wide>
void copy_rotated_by(const FieldView& view, std::int64_t channels, const Extent& extent,
                     const CropTurn& turn, std::vector<float>& plane, float* out) {
  constexpr std::int64_t padding = 16;  // numbers after a row, against the same effect
  const auto& symmetry = turn.symmetry;
  const Target target(symmetry, extent);
  const auto cells = extent[0] * extent[1] * extent[2];
  const auto channel_at = [&](std::int64_t number) {
    Channel channel{view.data + number * view.strides[0], nullptr, 1};
    auto to = number;
    if (turn.turns_velocity && number >= 1 && number <= 3) {
      const auto component = static_cast<std::size_t>(number - 1);
      to = 1 + symmetry.axis[component];
      channel.factor = static_cast<float>(symmetry.sign[component]);
    }
    channel.out = out + to * cells + target.first;
    return channel;
  };
  const auto fast = axis_of_rows(symmetry);
  const auto planes = fast == 2 ? extent[0] : extent[1 - fast];
  if (fast != 2) plane.resize(static_cast<std::size_t>(extent[fast] * (extent[2] + padding)));
  const auto copy_plane = [&](std::int64_t number, std::int64_t i) {
    if (fast == 2) {
      copy_rows<is_wide>(channel_at(number), view, extent, target, i);
    } else {
      copy_plane_transposed(channel_at(number), view, extent, target, fast, i, plane);
    }
  };
  if (view.strides[0] == 1) {  // the channels of a cell share lines of the cache
    for (std::int64_t i = 0; i < planes; ++i) {
      for (std::int64_t number = 0; number < channels; ++number) copy_plane(number, i);
    }
  } else {
    for (std::int64_t number = 0; number < channels; ++number) {
      if (is_wide && fast != 2) {
        copy_transposed_wide(channel_at(number), view, extent, target, fast);
        continue;
      }
      for (std::int64_t i = 0; i < planes; ++i) copy_plane(number, i);
    }
  }
}

}  // namespace

std::array<std::int64_t, 3> turned(const std::array<std::int64_t, 3>& extent,
                                   const CubeSymmetry& symmetry) {
  std::array<std::int64_t, 3> length{};
  for (std::size_t j = 0; j < 3; ++j)
    length[static_cast<std::size_t>(symmetry.axis[j])] = extent[j];
  return length;
}

void copy_rotated(const FieldView& view, std::int64_t channels, const Extent& extent,
                  const CropTurn& turn, std::vector<float>& plane, float* out) {
  // Smaller crops are still in the caches when they are used, so they aren't stored past those.
  constexpr std::int64_t least_streamed_bytes = std::int64_t{1} << 20;
  constexpr auto lanes = wide_copies::lanes;
  const auto bytes =
      channels * extent[0] * extent[1] * extent[2] * static_cast<std::int64_t>(sizeof(float));
  const bool is_aligned = extent[axis_of_rows(turn.symmetry)] % lanes == 0 &&
                          extent[2] % lanes == 0 &&
                          reinterpret_cast<std::uintptr_t>(out) % (4 * lanes) == 0;
  if (bytes < least_streamed_bytes || !is_aligned || view.strides[3] != 1 ||
      !wide_copies::are_supported())
    return copy_rotated_by<false>(view, channels, extent, turn, plane, out);
  copy_rotated_by<true>(view, channels, extent, turn, plane, out);
  wide_copies::finish();
}

}  // namespace kolo
