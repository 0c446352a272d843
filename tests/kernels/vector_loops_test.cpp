// The loops for every width of vectors that this processor has, against plain sums in double: a
// convolution takes the widest alone (convolution_test.cpp).
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/vector_loops.h"

namespace kolo {
namespace {

using image_lanes::Correlation;
using Values = std::vector<float>;

class VectorLoopsTest : public testing::Test {
 protected:
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  Values values(std::int64_t count) {
    Values result(static_cast<std::size_t>(count));
    for (auto& each : result) each = normal_(random_);
    return result;
  }
  void for_each_width(const std::function<void(const VectorLoops&)>& check) {
    for (const auto& loops : supported_vector_loops()) {
      SCOPED_TRACE(loops.lanes);
      check(loops);
    }
  }

 private:
  std::mt19937 random_{7};
  std::normal_distribution<float> normal_;
};

// Sums of a few hundred products of values near 1.
void expect_near(const Values& values, const std::vector<double>& reference) {
  ASSERT_EQ(values.size(), reference.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], reference[i], 1e-4 * (1 + std::abs(reference[i]))) << i;
}

std::int64_t input_values(const Correlation& shape) {
  return shape.inputs * shape.height * shape.width * shape.images;
}

std::int64_t output_values(const Correlation& shape) {
  return shape.outputs * shape.output_height() * shape.output_width() * shape.images;
}

// Calls product(input, weight, output) with the places of everything that is multiplied.
template <typename Product>
void for_products(const Correlation& shape, const Product& product) {
  for (std::int64_t out = 0; out < shape.outputs; ++out)
    for (std::int64_t y = 0; y < shape.output_height(); ++y)
      for (std::int64_t x = 0; x < shape.output_width(); ++x)
        for (std::int64_t in = 0; in < shape.inputs; ++in)
          for (std::int64_t i = 0; i < shape.kernel_height; ++i)
            for (std::int64_t j = 0; j < shape.kernel_width; ++j) {
              const auto row = y + i - shape.padding_height, column = x + j - shape.padding_width;
              if (row < 0 || row >= shape.height || column < 0 || column >= shape.width) continue;
              for (std::int64_t image = 0; image < shape.images; ++image) {
                product(
                    ((in * shape.height + row) * shape.width + column) * shape.images + image,
                    ((out * shape.inputs + in) * shape.kernel_height + i) * shape.kernel_width + j,
                    ((out * shape.output_height() + y) * shape.output_width() + x) * shape.images +
                        image);
              }
            }
}

TEST_F(VectorLoopsTest, CorrelateImages) {
  for (int round = 0; round < 30; ++round) {
    Correlation shape{.images = 16 * between(1, 6),
                      .inputs = between(1, 4),
                      .outputs = between(1, 12),
                      .height = between(1, 7),
                      .width = between(1, 7),
                      .padding_height = between(0, 2),
                      .padding_width = between(0, 2)};
    shape.kernel_height = between(1, shape.height + shape.padding_height);
    shape.kernel_width = between(1, shape.width + shape.padding_width);
    const auto input = values(input_values(shape));
    const auto weight = values(shape.outputs * shape.inputs * shape.taps());
    const auto bias = values(shape.outputs);
    const bool has_bias = round % 2 == 0;

    std::vector<double> reference(static_cast<std::size_t>(output_values(shape)));
    const auto plane = reference.size() / static_cast<std::size_t>(shape.outputs);
    for (std::size_t i = 0; has_bias && i < reference.size(); ++i) reference[i] = bias[i / plane];
    for_products(shape, [&](std::size_t from, std::size_t tap, std::size_t to) {
      reference[to] += double{input[from]} * weight[tap];
    });

    Values packed(weight.size());
    image_lanes::pack(shape, weight.data(), {shape.inputs * shape.taps(), shape.taps(), 1},
                      packed.data());
    for_each_width([&](const VectorLoops& loops) {
      Values output(reference.size(), NAN);
      loops.correlate(shape, input.data(), packed.data(), has_bias ? bias.data() : nullptr,
                      output.data(), 0, shape.output_height());
      expect_near(output, reference);
    });
    if (HasFatalFailure()) return;
  }
}

TEST_F(VectorLoopsTest, MakeGradientsOfCorrelations) {
  for (int round = 0; round < 30; ++round) {
    Correlation shape{.images = 16 * between(1, 3),
                      .inputs = between(1, 4),
                      .outputs = between(1, 12),
                      .height = between(1, 12),
                      .width = between(1, 12)};
    shape.kernel_height = between(1, std::min(shape.height, image_lanes::longest_kernel));
    shape.kernel_width = between(1, std::min(shape.width, image_lanes::longest_kernel));
    const auto input = values(input_values(shape));
    const auto gradient = values(output_values(shape));
    std::vector<double> reference(
        static_cast<std::size_t>(shape.outputs * shape.inputs * shape.taps()));
    for_products(shape, [&](std::size_t from, std::size_t tap, std::size_t to) {
      reference[tap] += double{input[from]} * gradient[to];
    });
    for_each_width([&](const VectorLoops& loops) {
      Values of_weight(reference.size(), NAN);
      loops.correlate_gradients(shape, input.data(), gradient.data(), of_weight.data(), 0,
                                shape.inputs);
      expect_near(of_weight, reference);
    });
    if (HasFatalFailure()) return;
  }
}

TEST_F(VectorLoopsTest, FindWhatIsNotZero) {
  for (int round = 0; round < 20; ++round) {
    const auto channels = 16 * between(1, 9), count = between(1, 7);
    auto vectors = values(count * channels);
    for (auto& each : vectors)
      if (between(0, 1) == 0) each = between(0, 1) == 0 ? 0.F : -0.F;
    vectors[0] = NAN;
    std::vector<BFloat16> rounded;
    for (const float each : vectors) rounded.push_back(to_bfloat16(each));
    const auto words = nonzero_bits::words_of(channels);
    std::vector<nonzero_bits::Word> reference(static_cast<std::size_t>(count * words));
    for (std::int64_t i = 0; i < count * channels; ++i) {
      const auto channel = i % channels, word = i / channels * words + channel / 64;
      if (vectors[static_cast<std::size_t>(i)] != 0)
        reference[static_cast<std::size_t>(word)] |= nonzero_bits::Word{1} << (channel % 64);
    }
    for_each_width([&](const VectorLoops& loops) {
      std::vector<nonzero_bits::Word> bits(reference.size(), ~nonzero_bits::Word{0});
      loops.of_float.find_nonzero(vectors.data(), count, channels, bits.data());
      EXPECT_EQ(bits, reference);
      bits.assign(bits.size(), ~nonzero_bits::Word{0});
      loops.of_bfloat16.find_nonzero(rounded.data(), count, channels, bits.data());
      EXPECT_EQ(bits, reference);
    });
    if (HasFailure()) return;
  }
}

TEST_F(VectorLoopsTest, MultiplyMatrices) {
  for (int round = 0; round < 60; ++round) {
    const bool is_copied = round % 5 == 0;  // narrow tiles' part of b, in two blocks
    const auto rows = between(1, is_copied ? 40 : 15), columns = 16 * between(1, 9),
               inner = between(1, 40) + (is_copied ? 500 : 0);
    const auto a = values(rows * inner), b = values(inner * columns),
               before = values(rows * columns);
    const bool is_transposed = round % 2 == 1, is_added = round % 3 == 0;
    std::vector<double> reference(before.begin(), before.end());
    if (!is_added) reference.assign(before.size(), 0);
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t k = 0; k < inner; ++k) {
          const auto left = is_transposed ? k * rows + i : i * inner + k;
          reference[at(i * columns + j)] += double{a[at(left)]} * b[at(k * columns + j)];
        }
    const auto left = is_transposed ? float32_products::Left{a.data(), 1, rows}
                                    : float32_products::Left{a.data(), inner, 1};
    for_each_width([&](const VectorLoops& loops) {
      Values c = before;
      loops.multiply(rows, columns, inner, left, b.data(), columns, c.data(), columns,
                     is_added ? ProductResult::is_added : ProductResult::replaces);
      expect_near(c, reference);
    });
    if (HasFatalFailure()) return;
  }
}

// Vectors of channels, and pointers to them.
template <typename T>
struct Box {
  std::vector<T> values;
  std::vector<T*> at;

  Box(const Values& from, std::int64_t channels) {
    for (const float each : from) {
      if constexpr (std::is_same_v<T, float>) {
        values.push_back(each);
      } else {
        values.push_back(to_bfloat16(each));
      }
    }
    for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(channels))
      at.push_back(values.data() + i);
  }
  [[nodiscard]] std::vector<const T*> pointers() const { return {at.begin(), at.end()}; }
  [[nodiscard]] double operator()(std::size_t i) const {
    if constexpr (std::is_same_v<T, float>) {
      return values[i];
    } else {
      return to_float(values[i]);
    }
  }
};

// A tile of four by four outputs of three by three taps, made of products of coefficients.
template <typename T>
void expect_tile(const Values& window_values, const Values& tap_values, const Values& bias,
                 const VectorLoops& loops, double tolerance) {
  constexpr auto algorithm = winograd::Algorithm::four_of_three_taps;
  constexpr std::size_t window_length = 6, tile_length = 4, taps = 3;
  const auto channels = static_cast<std::int64_t>(bias.size());
  const winograd::Offsets offsets(algorithm, 2, false, channels, 0);
  const Box<T> window(window_values, channels);
  const Box<float> kernel(tap_values, channels);
  Values of_inputs(window_length * window_length * bias.size(), NAN), of_taps = of_inputs;
  loops.of<T>().spread(algorithm, winograd::Spread::inputs, window.pointers().data(), channels,
                       offsets, of_inputs.data());
  loops.of_float.spread(algorithm, winograd::Spread::taps, kernel.pointers().data(), channels,
                        offsets, of_taps.data());
  for (std::size_t i = 0; i < of_inputs.size(); ++i) of_inputs[i] *= of_taps[i];
  Box<T> tile(Values(tile_length * tile_length * bias.size(), NAN), channels);
  tile.at[5] = nullptr;  // a position that is none
  loops.of<T>().collect(algorithm, winograd::Collect::outputs, of_inputs.data(), offsets, channels,
                        bias.data(), tile.at.data());
  for (std::size_t y = 0; y < tile_length; ++y)
    for (std::size_t x = 0; x < tile_length; ++x)
      for (std::size_t c = 0; c < bias.size(); ++c) {
        const auto made = tile((y * tile_length + x) * bias.size() + c);
        if (y * tile_length + x == 5) {
          ASSERT_TRUE(std::isnan(made));
          continue;
        }
        double sum = bias[c];
        for (std::size_t i = 0; i < taps; ++i)
          for (std::size_t j = 0; j < taps; ++j)
            sum += window(((y + i) * window_length + x + j) * bias.size() + c) *
                   kernel((i * taps + j) * bias.size() + c);
        ASSERT_NEAR(made, sum, tolerance * (1 + std::abs(sum))) << y << ' ' << x << ' ' << c;
      }
}

TEST_F(VectorLoopsTest, TransformTiles) {
  for (int round = 0; round < 10; ++round) {
    const auto channels = 16 * between(1, 4);
    const auto window = values(36 * channels), taps = values(9 * channels), bias = values(channels);
    for_each_width([&](const VectorLoops& loops) {
      expect_tile<float>(window, taps, bias, loops, 1e-5);
      expect_tile<BFloat16>(window, taps, bias, loops, 4e-3);
    });
    if (HasFatalFailure()) return;
  }
}

// To the nearest, and a NaN stays one: as to_bfloat16() does.
TEST_F(VectorLoopsTest, RoundOutputsToBFloat16) {
  constexpr auto algorithm = winograd::Algorithm::four_of_three_taps;
  constexpr std::int64_t channels = 16;
  const winograd::Offsets offsets(algorithm, 2, false, channels, 0);
  // Coefficients of 0 leave the bias.
  const Values coefficients(36 * channels, 0.F);
  for_each_width([&](const VectorLoops& loops) {
    for (int round = 0; round < 20; ++round) {
      auto bias = values(channels);
      bias[0] = NAN;
      bias[1] = INFINITY;
      bias[2] = __builtin_bit_cast(float, 0x7F800001U);  // its upper half alone is infinity
      bias[3] = __builtin_bit_cast(float, 0x3F808000U);  // half way, down to even
      bias[4] = __builtin_bit_cast(float, 0x3F818000U);  // half way, up to even
      Box<BFloat16> tile(Values(16 * channels, 0.F), channels);
      loops.of_bfloat16.collect(algorithm, winograd::Collect::outputs, coefficients.data(), offsets,
                                channels, bias.data(), tile.at.data());
      for (std::size_t c = 0; c < bias.size(); ++c) {
        if (std::isnan(bias[c])) {
          EXPECT_TRUE(std::isnan(to_float(tile.values[c]))) << c;
        } else {
          EXPECT_EQ(tile.values[c].bits, to_bfloat16(bias[c]).bits) << c;
        }
      }
    }
  });
}

}  // namespace
}  // namespace kolo
