#include "kernels/zero_products.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>

#include "kernels/channel_sums.h"
#include "kernels/products.h"
#include "kernels/taps.h"
#include "kernels/vector_loops.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

using nonzero_bits::bits_of_word;
using nonzero_bits::Word;

// Sets of channels, by number.
class ChannelSets {
 public:
  ChannelSets(std::int64_t count, std::int64_t channels)
      : words_(nonzero_bits::words_of(channels)),
        bits_(static_cast<std::size_t>(checked_multiply(count, words_))) {}

  [[nodiscard]] std::int64_t words() const { return words_; }
  [[nodiscard]] std::int64_t count() const { return narrow<std::int64_t>(bits_.size()) / words_; }
  [[nodiscard]] Word* operator[](std::int64_t i) { return bits_.data() + i * words_; }
  [[nodiscard]] const Word* operator[](std::int64_t i) const { return bits_.data() + i * words_; }

 private:
  std::int64_t words_;
  std::vector<Word> bits_;
};

// One set.
class ChannelSet {
 public:
  explicit ChannelSet(std::int64_t channels) : set_(1, channels) {}

  [[nodiscard]] bool has(std::int64_t channel) const {
    return (set_[0][channel / bits_of_word] >> (channel % bits_of_word) & 1) != 0;
  }
  void add(std::int64_t channel) {
    set_[0][channel / bits_of_word] |= Word{1} << (channel % bits_of_word);
  }
  [[nodiscard]] Word& word(std::int64_t i) { return set_[0][i]; }
  [[nodiscard]] Word word(std::int64_t i) const { return set_[0][i]; }
  [[nodiscard]] std::int64_t words() const { return set_.words(); }

 private:
  ChannelSets set_;
};

// Calls work(channel) for the channels in a set's word.
template <typename Work>
void for_channels_in(Word word, std::int64_t number, const Work& work) {
  for (; word != 0; word &= word - 1) work(number * bits_of_word + std::countr_zero(word));
}

// The inputs of a convolution, or the gradients of its outputs: by position the channels that are
// not 0.
struct Side {
  std::int64_t channels, positions;  // of a sample
  ChannelSets nonzero;
  ChannelSet some;  // that are not 0 somewhere
  ChannelSet rare;  // that hardly are, of positions here and there

  Side(const torch::Tensor& tensor, std::int64_t channels_of, std::int64_t samples)
      : channels(channels_of),
        positions(tensor.numel() / samples / channels_of),
        nonzero(samples * positions, channels_of),
        some(channels_of),
        rare(channels_of) {
    find_bits(tensor);
    for (std::int64_t i = 0; i < nonzero.count(); ++i)
      for (std::int64_t word = 0; word < nonzero.words(); ++word)
        some.word(word) |= nonzero[i][word];
    find_rare();
  }

 private:
  void find_bits(const torch::Tensor& tensor) {
    constexpr std::int64_t least_of_thread = 1024;
    with_values(tensor, [&]<typename T>() {
      at::parallel_for(
          0, nonzero.count(), least_of_thread, [&](std::int64_t begin, std::int64_t end) {
            vector_loops().of<T>().find_nonzero(values_of<const T>(tensor) + begin * channels,
                                                end - begin, channels, nonzero[begin]);
          });
    });
  }

  void find_rare() {
    constexpr std::int64_t enough = 256, one_of = 16;
    const auto step = std::max<std::int64_t>(nonzero.count() / enough, 1);
    std::vector<std::int64_t> seen(static_cast<std::size_t>(channels));
    std::int64_t looked_at = 0;
    for (std::int64_t i = 0; i < nonzero.count(); i += step, ++looked_at)
      for (std::int64_t word = 0; word < nonzero.words(); ++word)
        for_channels_in(nonzero[i][word], word,
                        [&](std::int64_t channel) { ++seen[static_cast<std::size_t>(channel)]; });
    for (std::int64_t channel = 0; channel < channels; ++channel)
      if (seen[static_cast<std::size_t>(channel)] * one_of < looked_at) rare.add(channel);
  }
};

// For each channel of one side: the other side's channels that it has met at no position yet.
class Unmet {
 public:
  // Adds a channel, which has to meet all others that are not 0 everywhere, or only those of them
  // that are not rare.
  void add(const Side& others, std::int64_t channel, bool includes_rare) {
    Word any = 0;
    for (std::int64_t word = 0; word < others_.words(); ++word) {
      const auto rare = includes_rare ? 0 : others.rare.word(word);
      any |= others_[channel][word] = others.some.word(word) & ~rare;
    }
    if (any != 0) open_.add(channel);
  }

  Unmet(std::int64_t channels, std::int64_t others) : others_(channels, others), open_(channels) {}

  // At a position. Whether a channel has met its last.
  bool meet(const Word* mine, const Word* others) {
    bool is_last = false;
    for (std::int64_t word = 0; word < open_.words(); ++word) {
      for_channels_in(mine[word] & open_.word(word), word, [&](std::int64_t channel) {
        Word left = 0;
        for (std::int64_t i = 0; i < others_.words(); ++i)
          left |= others_[channel][i] &= ~others[i];
        if (left != 0) return;
        open_.word(word) &= ~(Word{1} << (channel % bits_of_word));
        is_last = true;
      });
    }
    return is_last;
  }

  [[nodiscard]] bool is_any() const {
    Word any = 0;
    for (std::int64_t word = 0; word < open_.words(); ++word) any |= open_.word(word);
    return any != 0;
  }

  // Calls work(channel, other) for the pairs that have not met.
  template <typename Work>
  void for_each(const Work& work) const {
    for (std::int64_t word = 0; word < open_.words(); ++word)
      for_channels_in(open_.word(word), word, [&](std::int64_t channel) {
        for (std::int64_t i = 0; i < others_.words(); ++i)
          for_channels_in(others_[channel][i], i,
                          [&](std::int64_t other) { work(channel, other); });
      });
  }

 private:
  ChannelSets others_;
  ChannelSet open_;  // that have not met all
};

void set_to_zero(float& value) {
  if (std::isfinite(value)) value = 0;
}

// Restores the zeros of one tap, whose `matrix` is [inputs, outputs]. A pair of which a channel is
// rare is followed from that one's few positions; others meet soon.
void restore_zeros_of_tap(const TapPositions& positions, const Side& inputs, const Side& outputs,
                          std::int64_t samples, float* matrix) {
  Unmet of_inputs(inputs.channels, outputs.channels), of_outputs(outputs.channels, inputs.channels);
  for (std::int64_t input = 0; input < inputs.channels; ++input)
    if (inputs.some.has(input)) of_inputs.add(outputs, input, inputs.rare.has(input));
  for (std::int64_t output = 0; output < outputs.channels; ++output)
    if (outputs.some.has(output) && outputs.rare.has(output)) of_outputs.add(inputs, output, false);
  bool is_any = of_inputs.is_any() || of_outputs.is_any();
  for (std::int64_t sample = 0; sample < samples && is_any; ++sample) {
    positions.while_wanted([&](const Connection& connection) {
      const auto* const in = inputs.nonzero[sample * inputs.positions + connection.input];
      const auto* const out = outputs.nonzero[sample * outputs.positions + connection.output];
      const bool by_input = of_inputs.meet(in, out), by_output = of_outputs.meet(out, in);
      if (by_input || by_output) is_any = of_inputs.is_any() || of_outputs.is_any();
      return is_any;
    });
  }
  of_inputs.for_each([&](std::int64_t input, std::int64_t output) {
    set_to_zero(matrix[input * outputs.channels + output]);
  });
  of_outputs.for_each([&](std::int64_t output, std::int64_t input) {
    set_to_zero(matrix[input * outputs.channels + output]);
  });
}

// Channels that are 0 everywhere.
std::vector<std::int64_t> dead_channels(const Side& side) {
  std::vector<std::int64_t> dead;
  for (std::int64_t channel = 0; channel < side.channels; ++channel)
    if (!side.some.has(channel)) dead.push_back(channel);
  return dead;
}

}  // namespace

void restore_zeros(const ConvolutionGeometry& geometry, const torch::Tensor& input,
                   const torch::Tensor& output_gradient, float* gradients) {
  const Side inputs(input, geometry.inputs, geometry.batch);
  const Side outputs(output_gradient, geometry.outputs, geometry.batch);
  const auto dead_inputs = dead_channels(inputs), dead_outputs = dead_channels(outputs);
  const auto taps = geometry.taps();
  at::parallel_for(0, taps, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto tap = begin; tap < end; ++tap) {
      float* const matrix = gradients + tap * geometry.inputs * geometry.outputs;
      restore_zeros_of_tap({geometry, tap}, inputs, outputs, geometry.batch, matrix);
      for (const auto dead : dead_inputs)
        for (std::int64_t i = 0; i < geometry.outputs; ++i)
          set_to_zero(matrix[dead * geometry.outputs + i]);
      for (const auto dead : dead_outputs)
        for (std::int64_t i = 0; i < geometry.inputs; ++i)
          set_to_zero(matrix[i * geometry.outputs + dead]);
    }
  });
}

namespace {

using Flags = std::vector<std::uint8_t>;

// Tells whether a value is not 0, of float32 or bfloat16, by its bits without the sign.
template <typename Bits>
bool is_any(const Bits* values, std::int64_t count) {
  constexpr auto without_sign = static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  constexpr std::int64_t at_once = 16;  // most positions have something among the first ones
  for (std::int64_t first = 0; first < count; first += at_once) {
    Bits any = 0;
    for (std::int64_t i = 0; i < at_once; ++i) any |= values[first + i];
    if ((any & without_sign) != 0) return true;
  }
  return false;
}

// Tells for each position of all samples whether one of the channels is not 0.
template <typename Bits>
Flags find_flags(const torch::Tensor& tensor, std::int64_t channels) {
  constexpr std::int64_t least_of_thread = 1024;
  Flags flags(static_cast<std::size_t>(tensor.numel() / channels));
  const auto* const values = static_cast<const Bits*>(tensor.data_ptr());
  at::parallel_for(0, narrow<std::int64_t>(flags.size()), least_of_thread,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (auto i = begin; i < end; ++i) {
                       flags[static_cast<std::size_t>(i)] =
                           is_any(values + i * channels, channels) ? 1 : 0;
                     }
                   });
  return flags;
}

Flags flags_of(const torch::Tensor& tensor, std::int64_t channels) {
  return tensor.scalar_type() == torch::kFloat ? find_flags<std::uint32_t>(tensor, channels)
                                               : find_flags<std::uint16_t>(tensor, channels);
}

// The positions that taps connect each position of a result with, along one dimension: from `first`
// to `end`.
struct Along {
  struct Window {
    std::int64_t first = 0, end = 1;
  };
  std::vector<Window> windows = {{}};
  std::int64_t from_length = 1;

  [[nodiscard]] std::int64_t to_length() const { return narrow<std::int64_t>(windows.size()); }
};

// Always three dimensions: missing ones come first.
using Windows = std::array<Along, 3>;

// Windows of outputs, or of gradients of inputs.
Windows windows_of(const ConvolutionGeometry& geometry, bool of_outputs) {
  Windows windows;
  const auto output_size = geometry.output_size();
  for (std::size_t i = 0; i < geometry.size.size(); ++i) {
    const auto stride = geometry.stride[i], padding = geometry.padding[i],
               kernel = geometry.kernel[i];
    auto& along = windows[windows.size() - geometry.size.size() + i];
    along.from_length = of_outputs ? geometry.size[i] : output_size[i];
    along.windows.clear();
    for (std::int64_t to = 0; to < (of_outputs ? output_size[i] : geometry.size[i]); ++to) {
      // Outputs meet the inputs from o * stride - padding on; turned round, rounded up and down.
      const auto first =
          of_outputs ? to * stride - padding
                     : divide_up(std::max<std::int64_t>(to + padding - kernel + 1, 0), stride);
      const auto end = of_outputs ? first + kernel : (to + padding) / stride + 1;
      along.windows.push_back({std::max<std::int64_t>(first, 0), std::min(end, along.from_length)});
    }
  }
  return windows;
}

bool is_reached(const std::uint8_t* flags, const Windows& windows, std::int64_t z, std::int64_t y,
                std::int64_t x) {
  const auto& in_z = windows[0].windows[static_cast<std::size_t>(z)];
  const auto& in_y = windows[1].windows[static_cast<std::size_t>(y)];
  const auto& in_x = windows[2].windows[static_cast<std::size_t>(x)];
  for (auto i = in_z.first; i < in_z.end; ++i) {
    for (auto j = in_y.first; j < in_y.end; ++j) {
      const auto* const line = flags + (i * windows[1].from_length + j) * windows[2].from_length;
      for (auto k = in_x.first; k < in_x.end; ++k)
        if (line[k] != 0) return true;
    }
  }
  return false;
}

// Sets the vectors of `result` that no position with a flag is connected with to `vector`, or to 0
// where that is null.
template <typename Value>
void set_unreached(const ConvolutionGeometry& geometry, const Windows& windows, const Flags& flags,
                   const torch::Tensor& result, std::int64_t channels, const float* vector) {
  const bool are_all_reached = std::ranges::all_of(windows, [](const Along& along) {
    return std::ranges::all_of(
        along.windows, [](const Along::Window& window) { return window.first < window.end; });
  });
  if (are_all_reached && std::ranges::find(flags, 0) == flags.end()) return;
  const auto positions_from = narrow<std::int64_t>(flags.size()) / geometry.batch;
  const auto planes = windows[0].to_length(), rows = windows[1].to_length(),
             length = windows[2].to_length();
  Value* const all = values_of<Value>(result);
  at::parallel_for(0, geometry.batch * planes, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto plane = begin; plane < end; ++plane) {
      const auto* const mine = flags.data() + plane / planes * positions_from;
      for (std::int64_t y = 0; y < rows; ++y) {
        for (std::int64_t x = 0; x < length; ++x) {
          if (is_reached(mine, windows, plane % planes, y, x)) continue;
          Value* const values = all + ((plane * rows + y) * length + x) * channels;
          for (std::int64_t i = 0; i < channels; ++i) {
            if (std::isfinite(static_cast<float>(values[i])))
              values[i] = static_cast<Value>(vector == nullptr ? 0.F : vector[i]);
          }
        }
      }
    }
  });
}

}  // namespace

void restore_zero_outputs(const ConvolutionGeometry& geometry, const torch::Tensor& input,
                          const float* bias, const torch::Tensor& output) {
  const auto flags = flags_of(input, geometry.inputs);
  const auto windows = windows_of(geometry, true);
  if (output.scalar_type() == torch::kFloat)
    set_unreached<float>(geometry, windows, flags, output, geometry.outputs, bias);
  else
    set_unreached<c10::BFloat16>(geometry, windows, flags, output, geometry.outputs, bias);
}

void restore_zero_input_gradients(const ConvolutionGeometry& geometry,
                                  const torch::Tensor& output_gradient,
                                  const torch::Tensor& input_gradient) {
  set_unreached<float>(geometry, windows_of(geometry, false),
                       flags_of(output_gradient, geometry.outputs), input_gradient, geometry.inputs,
                       nullptr);
}

}  // namespace kolo
