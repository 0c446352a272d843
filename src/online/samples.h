#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <torch/types.h>

#include "online/sample_arrays.h"

// Samples as tensors and as records.
namespace kolo::online {

// Tensors of one batch, or of one sample without a batch.
struct Samples {
  std::vector<torch::Tensor> inputs, targets, extras;
};

// What all samples of a network have in common.
struct SampleShapes {
  TensorShapes inputs, targets, extras;

  // In the order of a record: inputs, targets, extras; each begins at a multiple of 8 bytes.
  [[nodiscard]] std::size_t record_bytes() const;
  [[nodiscard]] std::uint64_t fingerprint() const;
  bool operator==(const SampleShapes&) const = default;
};

// The arrays of one call.
struct SampleArguments {
  SampleArrays inputs, targets, extras;

  SampleArguments(std::span<const Array> input_arrays, std::span<const Array> target_arrays,
                  std::span<const Array> extra_arrays, const OnlineTrainingConfig& training,
                  const Call& call);
  [[nodiscard]] SampleShapes shapes() const {
    return {inputs.shapes(), targets.shapes(), extras.shapes()};
  }
  // InputError, in words that say which, unless they are the expected ones.
  void require(const SampleShapes& expected, const Call& call) const;
};

// How tensors are normalized; nothing for those that aren't. Never changes once it is made.
struct Normalization {
  std::vector<std::optional<ChannelScales>> inputs, targets;

  [[nodiscard]] const ChannelScales* of_input(std::size_t tensor) const;
  [[nodiscard]] const ChannelScales* of_target(std::size_t tensor) const;
};

// All samples of a call, normalized; [samples, lengths...], or without the batch.
[[nodiscard]] Samples tensors_of(const SampleArguments& arguments, bool has_batch,
                                 const Normalization& normalization);
[[nodiscard]] std::vector<torch::Tensor> inputs_of(const SampleArrays& inputs, bool has_batch,
                                                   const Normalization& normalization);

// The samples of records as a batch, normalized.
[[nodiscard]] Samples tensors_of(std::span<const std::span<const std::byte>> records,
                                 const SampleShapes& shapes, bool has_batch,
                                 const Normalization& normalization);

}  // namespace kolo::online
