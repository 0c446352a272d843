#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <torch/types.h>

#include "kolo/online/array.h"
#include "kolo/online/online_config.h"

// Mapping of a program's arrays to samples: which elements belong to which sample, and where they
// lie in the network's tensors and in packed memory.
namespace kolo::online {

// One loop over elements of an array: their number and their strides in the array and in the
// values.
struct Loop {
  std::int64_t count = 1;
  std::int64_t in_array = 0, in_values = 0;
};

// Elements of an array and their places among contiguous values. Loops are nested, the first one
// outermost.
struct Elements {
  const Array* array = nullptr;
  std::int64_t first_in_array = 0, first_in_values = 0;
  std::array<Loop, most_array_dimensions + 1> loops{};
  std::size_t n_loops = 0;

  void add(const Loop& loop);
};

// values = (elements - mean) x factor, in float64. Values are float32 or int64, of which the latter
// are never normalized (mean 0, factor 1).
template <typename Value>
void read_elements(const Elements& elements, Value* values, double mean, double factor);
// elements = values x factor + mean, rounded to the nearest for integers.
template <typename Value>
void write_elements(const Elements& elements, const Value* values, double mean, double factor);

// Call of the program, named in errors.
struct Call {
  std::string_view name;
  int rank = 0;

  // "online: push on rank 3: " and the words.
  [[nodiscard]] std::string text(std::string_view words) const;
};

// InputError: "online: push on rank 3: inputs[1]: ...".
[[noreturn]] void refuse(const Call& call, std::string_view argument, std::string_view reason);

// Shape of one sample in a tensor of the network, without the batch.
struct TensorShape {
  bool is_integer = false;  // int64; otherwise float32
  std::vector<std::int64_t> lengths;

  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] std::size_t bytes() const;
  // Rounded up, so that the next tensor in a packed sample is aligned.
  [[nodiscard]] std::size_t packed_bytes() const { return (bytes() + 7) / 8 * 8; }
  bool operator==(const TensorShape&) const = default;
};
using TensorShapes = std::vector<TensorShape>;

[[nodiscard]] std::string describe(const TensorShapes& shapes);

// Per channel: the mean that is subtracted and the factor that the difference is multiplied by.
struct ChannelScales {
  std::vector<double> mean, factor;
};

// Arrays of one argument as tensors of samples.
class SampleArrays {
 public:
  // InputError for arrays that can't be samples of this kind. `argument`: "inputs". The arrays
  // must outlive it.
  SampleArrays(std::span<const Array> arrays, SampleKind kind, std::int64_t column_axis,
               const Call& call, std::string_view argument);

  [[nodiscard]] std::int64_t samples() const { return samples_; }
  // Shapes of one sample.
  [[nodiscard]] const TensorShapes& shapes() const { return shapes_; }

  // Reads all samples of a tensor, [samples, lengths...]. `scales`: null if it isn't normalized;
  // integers never are.
  template <typename Value>
  void read(std::size_t tensor, Value* values, const ChannelScales* scales = nullptr) const;
  // Number of slices along the slowest axis of samples; all hold equally many samples.
  [[nodiscard]] std::int64_t slices() const { return slices_; }
  // Reads the samples of some slices packed, `packed_bytes` apart; each holds its
  // tensors in the order of shapes().
  void pack(std::int64_t first_slice, std::int64_t n_slices, std::byte* packed,
            std::size_t packed_bytes) const;
  // Writes values / factor + mean back into the arrays.
  template <typename Value>
  void write(std::size_t tensor, const Value* values, const ChannelScales* scales = nullptr) const;

 private:
  struct Axis {
    std::int64_t length = 1, stride = 0;
  };
  struct Piece {
    const Array* array = nullptr;
    std::vector<Axis> of_samples, within;  // within a channel of a sample
    Axis channels;
    std::int64_t first_channel = 0;  // in the tensor
  };

  void add_array(const Array& array, SampleKind kind, std::int64_t column_axis, const Call& call,
                 const std::string& argument);
  struct Slices {
    std::int64_t first = 0, count = 0;
  };
  template <typename Function>
  void for_each_run(std::size_t tensor, const Slices& slices, std::int64_t sample_stride,
                    const ChannelScales* scales, const Function& function) const;

  std::int64_t samples_ = 1, slices_ = 1;
  TensorShapes shapes_;
  std::vector<std::vector<Piece>> pieces_;  // by tensor
};

// Tensors of a batch, or of one sample without a batch.
struct Samples {
  std::vector<torch::Tensor> inputs, targets, extras;
};

// Numbers of samples that arrived and of those now in reservoirs.
struct SampleCounts {
  std::int64_t arrivals = 0, stored = 0;
};

// Shapes of a sample, the same for all samples of a network.
struct SampleShapes {
  TensorShapes inputs, targets, extras;

  // Size of a packed sample: inputs, targets, extras, each aligned to 8 bytes.
  [[nodiscard]] std::size_t packed_bytes() const;
  [[nodiscard]] std::uint64_t fingerprint() const;
  bool operator==(const SampleShapes&) const = default;
};

// Arrays of one call.
struct SampleArguments {
  SampleArrays inputs, targets, extras;

  SampleArguments(std::span<const Array> input_arrays, std::span<const Array> target_arrays,
                  std::span<const Array> extra_arrays, const OnlineTrainingConfig& training,
                  const Call& call);
  [[nodiscard]] SampleShapes shapes() const {
    return {inputs.shapes(), targets.shapes(), extras.shapes()};
  }
  // InputError that names the argument whose shapes differ from the expected ones.
  void require(const SampleShapes& expected, const Call& call) const;
};

// Scales by tensor; nothing for a tensor that isn't normalized, empty if none is.
using TensorScales = std::vector<std::optional<ChannelScales>>;

[[nodiscard]] const ChannelScales* scales_in(const TensorScales& all, std::size_t tensor);

// Normalization of all tensors. Immutable once made.
struct Normalization {
  TensorScales inputs, targets;
};

// Tensor of as many samples of this shape, or of one without the batch.
[[nodiscard]] torch::Tensor empty_for(const TensorShape& shape, std::int64_t samples,
                                      bool has_batch);

// Normalized tensors of all samples of a call, [samples, lengths...] or without the batch.
[[nodiscard]] Samples tensors_of(const SampleArguments& arguments, bool has_batch,
                                 const Normalization& normalization);
[[nodiscard]] std::vector<torch::Tensor> inputs_of(const SampleArrays& inputs, bool has_batch,
                                                   const Normalization& normalization);

// Normalized batch of the samples in packed memory.
[[nodiscard]] Samples tensors_of(std::span<const std::span<const std::byte>> packed,
                                 const SampleShapes& shapes, bool has_batch,
                                 const Normalization& normalization);

}  // namespace kolo::online
