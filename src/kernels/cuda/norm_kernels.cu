#include "kernels/cuda/norm_kernels.h"

#include <algorithm>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/cuda/launch.h"
#include "base/cuda/packs.h"

// As for the CPU (kernels/fused.cpp): sums over the rows by channel in one pass, what follows of
// them for each channel in a small one, and the values in another.
namespace kolo::norm {

namespace {

using cuda::Pack;

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(__half value) {
  return __half2float(value);
}
__device__ inline float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <typename T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float(float value) {
  return value;
}
template <>
__device__ inline __half from_float(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 from_float(float value) {
  return __float2bfloat16_rn(value);
}

// How blocks share the values: blockIdx.x and threadIdx.x choose a pack of channels, and
// blockIdx.y a stretch of rows, of which a thread takes every blockDim.y-th. The cut depends on the
// shape alone, and with it the order of additions.
struct Cut {
  unsigned packs = 0;          // of channels
  unsigned columns = 0;        // packs of a block: a power of 2
  unsigned column_blocks = 0;  // blocks side by side
  unsigned splits = 0;         // stretches of rows
  std::int64_t rows_of_split = 0;

  Cut(const Rows& rows, int width) : packs(static_cast<unsigned>(rows.channels / width)) {
    constexpr unsigned most_columns = 32, wanted_blocks = 1024;
    constexpr std::int64_t least_rows_of_thread = 4;
    columns = 1;
    while (columns < most_columns && columns < packs) columns *= 2;
    column_blocks = (packs + columns - 1) / columns;
    const std::int64_t least = least_rows_of_thread * (cuda::block_threads / columns);
    const auto wanted = std::max(1U, wanted_blocks / column_blocks);
    rows_of_split = std::max(least, (rows.count + wanted - 1) / wanted);
    splits = static_cast<unsigned>((rows.count + rows_of_split - 1) / rows_of_split);
  }

  [[nodiscard]] dim3 grid() const { return {column_blocks, splits}; }
  [[nodiscard]] dim3 block() const { return {columns, cuda::block_threads / columns}; }
};

// visit(offset) for the thread's packs of values, which are all of the channels from `first` on.
template <int width, typename Visit>
__device__ inline void for_own_rows(const Rows& rows, std::int64_t rows_of_split,
                                    const Visit& visit) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width;
  if (first >= rows.channels) return;
  const std::int64_t begin = blockIdx.y * rows_of_split;
  const std::int64_t end = begin + rows_of_split < rows.count ? begin + rows_of_split : rows.count;
  for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y)
    visit(row * rows.channels + first);
}

template <int width>
__device__ inline std::int64_t first_channel() {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width;
}

// Two sums a channel of the block's rows, written to partials[split][sum][channel]; `own`: the
// thread's. All threads of the block take part.
template <int width>
__device__ inline void write_sums(const Rows& rows, float (&own)[2][width], float* partials) {
  __shared__ float totals[2][width][cuda::block_threads];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (int sum = 0; sum < 2; ++sum) {
    for (int k = 0; k < width; ++k) totals[sum][k][thread] = own[sum][k];
  }
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half) continue;
    for (int sum = 0; sum < 2; ++sum) {
      for (int k = 0; k < width; ++k)
        totals[sum][k][thread] += totals[sum][k][thread + half * blockDim.x];
    }
  }
  const std::int64_t first = first_channel<width>();
  if (threadIdx.y != 0 || first >= rows.channels) return;
  for (int sum = 0; sum < 2; ++sum) {
    float* const into = partials + (2 * std::int64_t{blockIdx.y} + sum) * rows.channels + first;
    for (int k = 0; k < width; ++k) into[k] = totals[sum][k][thread];
  }
}

// A channel's sums over all splits, in their order.
struct Sums {
  double first = 0, second = 0;

  __device__ Sums(const Rows& rows, unsigned splits, const float* partials, std::int64_t channel) {
    for (unsigned split = 0; split < splits; ++split) {
      first += partials[2 * std::int64_t{split} * rows.channels + channel];
      second += partials[(2 * std::int64_t{split} + 1) * rows.channels + channel];
    }
  }
};

// Distances from the first row's values, which lie as near to the means as any, and their squares.
template <typename T, int width>
__global__ void sum_distances_kernel(Rows rows, std::int64_t rows_of_split, const T* input,
                                     float* partials) {
  float own[2][width] = {};
  const std::int64_t channel = first_channel<width>();
  float shift[width] = {};
  if (channel < rows.channels) {
    const auto nearest = cuda::load<width>(input + channel);
    for (int k = 0; k < width; ++k) shift[k] = to_float(nearest.values[k]);
  }
  for_own_rows<width>(rows, rows_of_split, [&](std::int64_t offset) {
    const auto values = cuda::load<width>(input + offset);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float distance = to_float(values.values[k]) - shift[k];
      own[0][k] += distance;
      own[1][k] += distance * distance;
    }
  });
  write_sums<width>(rows, own, partials);
}

// What follows for each channel: what is kept, the running statistics, and the line slope x +
// offset, which is the normalized value.
template <typename T>
__global__ void finish_statistics_kernel(Rows rows, unsigned splits, const float* partials,
                                         const T* input, Forward pass, float* lines) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= rows.channels) return;
  const Sums sums(rows, splits, partials, channel);
  const double count = static_cast<double>(rows.count);
  const double distance = sums.first / count;
  const double mean = to_float(input[channel]) + distance;
  double variance = sums.second / count - distance * distance;
  if (variance < 0) variance = 0;  // by rounding; a NaN stays one
  const double inverse = 1 / sqrt(variance + pass.epsilon);
  pass.channels.kept[channel] = static_cast<float>(mean);
  pass.channels.kept[rows.channels + channel] = static_cast<float>(inverse);
  const auto moved = [&](float from, double to) {
    return static_cast<float>((1 - pass.momentum) * from + pass.momentum * to);
  };
  pass.running_mean[channel] = moved(pass.running_mean[channel], mean);
  pass.running_variance[channel] =
      moved(pass.running_variance[channel], variance * (count / (count - 1)));
  const double slope = pass.channels.weight[channel] * inverse;
  lines[channel] = static_cast<float>(slope);
  lines[rows.channels + channel] = static_cast<float>(pass.channels.bias[channel] - mean * slope);
}

template <typename T, int width>
__global__ void normalize_kernel(Rows rows, std::int64_t rows_of_split, const T* input,
                                 const T* addend, const float* lines, bool relu, T* output) {
  const std::int64_t channel = first_channel<width>();
  if (channel >= rows.channels) return;
  float slope[width], offset[width];
  for (int k = 0; k < width; ++k) {
    slope[k] = lines[channel + k];
    offset[k] = lines[rows.channels + channel + k];
  }
  for_own_rows<width>(rows, rows_of_split, [&](std::int64_t at) {
    const auto values = cuda::load<width>(input + at);
    Pack<T, width> added, result;
    if (addend != nullptr) added = cuda::load<width>(addend + at);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      float value = slope[k] * to_float(values.values[k]) + offset[k];
      if (addend != nullptr) value += to_float(added.values[k]);
      if (relu && value < 0) value = 0;  // what is not a number stays so
      result.values[k] = from_float<T>(value);
    }
    cuda::store(output + at, result);
  });
}

// The gradient before the activation.
template <typename T, int width>
__device__ inline Pack<T, width> active_gradient(const T* gradient, const T* output,
                                                 std::int64_t at) {
  auto values = cuda::load<width>(gradient + at);
  if (output == nullptr) return values;
  const auto outputs = cuda::load<width>(output + at);
#pragma unroll
  for (int k = 0; k < width; ++k) {
    if (to_float(outputs.values[k]) <= 0) values.values[k] = from_float<T>(0);
  }
  return values;
}

// The gradients, and their products with the distances from the mean.
template <typename T, int width>
__global__ void sum_gradients_kernel(Rows rows, std::int64_t rows_of_split, const T* gradient,
                                     const T* output, const T* input, const float* kept,
                                     T* of_addend, float* partials) {
  float own[2][width] = {};
  const std::int64_t channel = first_channel<width>();
  float mean[width] = {};
  if (channel < rows.channels) {
    for (int k = 0; k < width; ++k) mean[k] = kept[channel + k];
  }
  for_own_rows<width>(rows, rows_of_split, [&](std::int64_t at) {
    const auto gradients = active_gradient<T, width>(gradient, output, at);
    const auto values = cuda::load<width>(input + at);
    if (of_addend != nullptr) cuda::store(of_addend + at, gradients);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float value = to_float(gradients.values[k]);
      own[0][k] += value;
      own[1][k] += value * (to_float(values.values[k]) - mean[k]);
    }
  });
  write_sums<width>(rows, own, partials);
}

// lines: slope, tilt, level; slope g - tilt (x - mean) - level is the input's gradient (Ioffe and
// Szegedy, arXiv:1502.03167).
__global__ void finish_gradients_kernel(Rows rows, unsigned splits, const float* partials,
                                        Backward pass, float* lines) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= rows.channels) return;
  const Sums sums(rows, splits, partials, channel);
  const double count = static_cast<double>(rows.count);
  const double inverse = pass.channels.kept[rows.channels + channel];
  const double slope = pass.channels.weight[channel] * inverse;
  pass.of_bias[channel] = static_cast<float>(sums.first);
  pass.of_weight[channel] = static_cast<float>(sums.second * inverse);
  lines[channel] = static_cast<float>(slope);
  lines[rows.channels + channel] =
      static_cast<float>(slope * inverse * inverse * sums.second / count);
  lines[2 * rows.channels + channel] = static_cast<float>(slope * sums.first / count);
}

template <typename T, int width>
__global__ void normalize_gradient_kernel(Rows rows, std::int64_t rows_of_split, const T* gradient,
                                          const T* output, const T* input, const float* kept,
                                          const float* lines, T* of_input) {
  const std::int64_t channel = first_channel<width>();
  if (channel >= rows.channels) return;
  float slope[width], tilt[width], level[width], mean[width];
  for (int k = 0; k < width; ++k) {
    mean[k] = kept[channel + k];
    slope[k] = lines[channel + k];
    tilt[k] = lines[rows.channels + channel + k];
    level[k] = lines[2 * rows.channels + channel + k];
  }
  for_own_rows<width>(rows, rows_of_split, [&](std::int64_t at) {
    const auto gradients = active_gradient<T, width>(gradient, output, at);
    const auto values = cuda::load<width>(input + at);
    Pack<T, width> result;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float distance = to_float(values.values[k]) - mean[k];
      result.values[k] =
          from_float<T>(slope[k] * to_float(gradients.values[k]) - tilt[k] * distance - level[k]);
    }
    cuda::store(of_input + at, result);
  });
}

// Where a workspace's parts begin.
struct Workspace {
  float* partials;
  float* lines;

  Workspace(std::span<std::byte> memory, const Rows& rows, const Cut& cut)
      : partials(reinterpret_cast<float*>(memory.data())),
        lines(partials + 2 * std::int64_t{cut.splits} * rows.channels) {}
};

unsigned channel_blocks(const Rows& rows) {
  return cuda::blocks_for(static_cast<std::size_t>(rows.channels));
}

template <typename T, int width>
void run(const Rows& rows, const Forward& pass, std::span<std::byte> memory, cudaStream_t stream) {
  const Cut cut(rows, width);
  const Workspace work(memory, rows, cut);
  const auto* const input = static_cast<const T*>(pass.input);
  sum_distances_kernel<T, width>
      <<<cut.grid(), cut.block(), 0, stream>>>(rows, cut.rows_of_split, input, work.partials);
  cuda::check_launch("nn", "sums of distances");
  finish_statistics_kernel<<<channel_blocks(rows), cuda::block_threads, 0, stream>>>(
      rows, cut.splits, work.partials, input, pass, work.lines);
  cuda::check_launch("nn", "statistics");
  normalize_kernel<T, width><<<cut.grid(), cut.block(), 0, stream>>>(
      rows, cut.rows_of_split, input, static_cast<const T*>(pass.addend), work.lines, pass.relu,
      static_cast<T*>(pass.output));
  cuda::check_launch("nn", "normalization");
}

template <typename T, int width>
void run(const Rows& rows, const Backward& pass, std::span<std::byte> memory, cudaStream_t stream) {
  const Cut cut(rows, width);
  const Workspace work(memory, rows, cut);
  const auto* const input = static_cast<const T*>(pass.input);
  const auto* gradient = static_cast<const T*>(pass.gradient);
  const auto* output = static_cast<const T*>(pass.output);
  sum_gradients_kernel<T, width><<<cut.grid(), cut.block(), 0, stream>>>(
      rows, cut.rows_of_split, gradient, output, input, pass.channels.kept,
      static_cast<T*>(pass.of_addend), work.partials);
  cuda::check_launch("nn", "sums of gradients");
  finish_gradients_kernel<<<channel_blocks(rows), cuda::block_threads, 0, stream>>>(
      rows, cut.splits, work.partials, pass, work.lines);
  cuda::check_launch("nn", "gradients by channel");
  if (pass.of_addend != nullptr) {  // the gradient where the output is above 0
    gradient = static_cast<const T*>(pass.of_addend);
    output = nullptr;
  }
  normalize_gradient_kernel<T, width><<<cut.grid(), cut.block(), 0, stream>>>(
      rows, cut.rows_of_split, gradient, output, input, pass.channels.kept, work.lines,
      static_cast<T*>(pass.of_input));
  cuda::check_launch("nn", "gradient of a normalization");
}

template <typename T, typename Pass>
void run_wide(const Rows& rows, const Pass& pass, std::span<std::byte> memory,
              cudaStream_t stream) {
  constexpr int width = cuda::widest_bytes / sizeof(T);
  if (rows.channels % width == 0)
    run<T, width>(rows, pass, memory, stream);
  else
    run<T, 1>(rows, pass, memory, stream);
}

template <typename Pass>
void run_typed(ValueType type, const Rows& rows, const Pass& pass, std::span<std::byte> memory,
               cudaStream_t stream) {
  switch (type) {
    case ValueType::float32:
      return run_wide<float>(rows, pass, memory, stream);
    case ValueType::float16:
      return run_wide<__half>(rows, pass, memory, stream);
    case ValueType::bfloat16:
      return run_wide<__nv_bfloat16>(rows, pass, memory, stream);
  }
}

}  // namespace

// Whatever the type.
std::size_t workspace_bytes(const Rows& rows) {
  std::size_t most = 0;
  for (const int width : {1, 4, 8}) {
    if (rows.channels % width == 0) most = std::max<std::size_t>(most, Cut(rows, width).splits);
  }
  return (2 * most + 3) * static_cast<std::size_t>(rows.channels) * sizeof(float);
}

void forward(ValueType type, const Rows& rows, const Forward& pass, std::span<std::byte> workspace,
             void* stream) {
  run_typed(type, rows, pass, workspace, static_cast<cudaStream_t>(stream));
}

void backward(ValueType type, const Rows& rows, const Backward& pass,
              std::span<std::byte> workspace, void* stream) {
  run_typed(type, rows, pass, workspace, static_cast<cudaStream_t>(stream));
}

}  // namespace kolo::norm
