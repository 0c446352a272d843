#include "online/samples.h"

#include <cstring>

#include <fmt/format.h>

#include "base/fingerprint.h"
#include "kolo/base/checked.h"

namespace kolo::online {

std::size_t SampleShapes::packed_bytes() const {
  std::size_t bytes = 0;
  for (const auto* const group : {&inputs, &targets, &extras}) {
    for (const auto& shape : *group) bytes = checked_add(bytes, shape.packed_bytes());
  }
  return bytes;
}

std::uint64_t SampleShapes::fingerprint() const {
  return fingerprint_of(
      fmt::format("{}; {}; {}", describe(inputs), describe(targets), describe(extras)));
}

SampleArguments::SampleArguments(std::span<const Array> input_arrays,
                                 std::span<const Array> target_arrays,
                                 std::span<const Array> extra_arrays,
                                 const OnlineTrainingConfig& training, const Call& call)
    : inputs(input_arrays, training.samples, training.column_axis, call, "inputs"),
      targets(target_arrays, training.samples, training.column_axis, call, "targets"),
      extras(extra_arrays, training.samples, training.column_axis, call, "extras") {
  if (input_arrays.empty()) refuse(call, "inputs", "there are none; expected an array or more");
  const auto require_as_many = [&](const SampleArrays& arrays, std::string_view argument) {
    if (arrays.shapes().empty()) return;
    if (arrays.samples() == inputs.samples() && arrays.slices() == inputs.slices()) return;
    refuse(call, argument,
           fmt::format("{} samples, but the inputs have {}; with training.samples {} the axes of "
                       "samples must be alike",
                       arrays.samples(), inputs.samples(), name_of(training.samples)));
  };
  require_as_many(targets, "targets");
  require_as_many(extras, "extras");
}

void SampleArguments::require(const SampleShapes& expected, const Call& call) const {
  const auto compare = [&](const TensorShapes& mine, const TensorShapes& known,
                           std::string_view argument) {
    if (mine == known) return;
    refuse(call, argument,
           fmt::format("samples of {}, but those before were {}; all samples of a network are "
                       "alike",
                       describe(mine), describe(known)));
  };
  compare(inputs.shapes(), expected.inputs, "inputs");
  compare(targets.shapes(), expected.targets, "targets");
  compare(extras.shapes(), expected.extras, "extras");
}

const ChannelScales* scales_in(const TensorScales& all, std::size_t tensor) {
  return tensor < all.size() && all[tensor] ? &*all[tensor] : nullptr;
}

torch::Tensor empty_for(const TensorShape& shape, std::int64_t samples, bool has_batch) {
  auto sizes = shape.lengths;
  if (has_batch) sizes.insert(sizes.begin(), samples);
  return torch::empty(sizes, shape.is_integer ? torch::kLong : torch::kFloat);
}

namespace {

std::vector<torch::Tensor> all_tensors(const SampleArrays& arrays, bool has_batch,
                                       const TensorScales& scales) {
  std::vector<torch::Tensor> tensors;
  for (std::size_t i = 0; i < arrays.shapes().size(); ++i) {
    const auto& shape = arrays.shapes()[i];
    auto& tensor = tensors.emplace_back(empty_for(shape, arrays.samples(), has_batch));
    if (shape.is_integer)
      arrays.read(i, tensor.data_ptr<std::int64_t>());
    else
      arrays.read(i, tensor.data_ptr<float>(), scales_in(scales, i));
  }
  return tensors;
}

void normalize(float* values, std::int64_t count, const ChannelScales& scales) {
  const auto channels = static_cast<std::int64_t>(scales.mean.size());
  const auto within = count / channels;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const double mean = scales.mean[static_cast<std::size_t>(channel)];
    const double factor = scales.factor[static_cast<std::size_t>(channel)];
    float* const begin = values + channel * within;
    // In float64, as read_elements(): of a number far from 0 float32 leaves few digits.
    for (std::int64_t i = 0; i < within; ++i)
      begin[i] = static_cast<float>((static_cast<double>(begin[i]) - mean) * factor);
  }
}

// Tensors of one group, which begins at `offset` in each packed sample; moves `offset` to its end.
std::vector<torch::Tensor> tensors_at(std::span<const std::span<const std::byte>> packed,
                                      const TensorShapes& shapes, bool has_batch,
                                      std::size_t& offset, const TensorScales& all_scales) {
  std::vector<torch::Tensor> tensors;
  const auto samples = narrow<std::int64_t>(packed.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto& shape = shapes[i];
    auto& tensor = tensors.emplace_back(empty_for(shape, samples, has_batch));
    auto* to = static_cast<std::byte*>(tensor.data_ptr());
    const auto* const scales = shape.is_integer ? nullptr : scales_in(all_scales, i);
    for (const auto& sample : packed) {
      std::memcpy(to, sample.data() + offset, shape.bytes());
      if (scales) normalize(reinterpret_cast<float*>(to), shape.count(), *scales);
      to += shape.bytes();
    }
    offset += shape.packed_bytes();
  }
  return tensors;
}

}  // namespace

std::vector<torch::Tensor> inputs_of(const SampleArrays& inputs, bool has_batch,
                                     const Normalization& normalization) {
  return all_tensors(inputs, has_batch, normalization.inputs);
}

Samples tensors_of(const SampleArguments& arguments, bool has_batch,
                   const Normalization& normalization) {
  return {inputs_of(arguments.inputs, has_batch, normalization),
          all_tensors(arguments.targets, has_batch, normalization.targets),
          all_tensors(arguments.extras, has_batch, {})};
}

Samples tensors_of(std::span<const std::span<const std::byte>> packed, const SampleShapes& shapes,
                   bool has_batch, const Normalization& normalization) {
  std::size_t offset = 0;
  Samples samples;
  samples.inputs = tensors_at(packed, shapes.inputs, has_batch, offset, normalization.inputs);
  samples.targets = tensors_at(packed, shapes.targets, has_batch, offset, normalization.targets);
  samples.extras = tensors_at(packed, shapes.extras, has_batch, offset, {});
  return samples;
}

}  // namespace kolo::online
