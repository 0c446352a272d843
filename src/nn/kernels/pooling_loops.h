#pragma once

#include <cstdint>
#include <span>

// The loops of max_pool_relu, over images in channels-last order.
namespace kolo {

// Which of a window's values passed: 0 to 3, by rows, or none, since none is above zero.
inline constexpr std::int32_t no_winner = 4;

struct PoolingShape {
  std::int64_t height = 0, width = 0, channels = 0;  // of one input image

  [[nodiscard]] std::int64_t pooled_height() const { return height / 2; }
  [[nodiscard]] std::int64_t pooled_width() const { return width / 2; }
  [[nodiscard]] std::int64_t values() const { return height * width * channels; }
  [[nodiscard]] std::int64_t pooled_values() const {
    return pooled_height() * pooled_width() * channels;
  }
};

// The largest value of each 2x2 window, or 0 if that is larger. A NaN wins.
void pool_image(const PoolingShape& shape, const float* input, float* output,
                std::int32_t* winners);

// The gradient of every input value: its window's, or 0.
void unpool_image(const PoolingShape& shape, const float* output_gradient,
                  const std::int32_t* winners, float* input_gradient);

}  // namespace kolo
