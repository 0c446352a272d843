#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The passes of a batch norm over values in channels-last memory of a CUDA device: rows of
// channels, one row for each place of each image. They are enqueued on a stream (a cudaStream_t of
// the current device), and the memory is the device's. Without LibTorch.
namespace kolo::norm {

enum class ValueType : std::uint8_t { float32, float16, bfloat16 };

struct Rows {
  std::int64_t count = 0;
  std::int64_t channels = 0;
};

// Of the forward and the backward pass, by channel.
struct Channels {
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* kept = nullptr;  // [2, channels]: the mean and the inverse of the deviation
};

struct Forward {
  const void* input = nullptr;
  const void* addend = nullptr;  // or null
  void* output = nullptr;
  Channels channels;  // whose `kept` is written
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  double momentum = 0;
  double epsilon = 0;
  bool relu = false;
};

struct Backward {
  const void* gradient = nullptr;
  const void* input = nullptr;
  const void* output = nullptr;  // where a ReLU followed, otherwise null
  Channels channels;
  void* of_input = nullptr;
  void* of_addend = nullptr;  // where there was an addend and a ReLU, otherwise null
  float* of_weight = nullptr;
  float* of_bias = nullptr;
};

// Of either pass, aligned to 16; nothing is kept in it.
[[nodiscard]] std::size_t workspace_bytes(const Rows& rows);

// Throw Error where the device refuses a launch.
void forward(ValueType type, const Rows& rows, const Forward& pass, std::span<std::byte> workspace,
             void* stream);
void backward(ValueType type, const Rows& rows, const Backward& pass,
              std::span<std::byte> workspace, void* stream);

}  // namespace kolo::norm
