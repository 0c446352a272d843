#include "online/samples.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo::online {

std::string Call::text(std::string_view words) const {
  return fmt::format("online: {} on rank {}: {}", name, rank, words);
}

void refuse(const Call& call, std::string_view argument, std::string_view reason) {
  throw InputError(call.text(fmt::format("{}: {}", argument, reason)));
}

std::int64_t TensorShape::count() const {
  return checked_product(std::span<const std::int64_t>(lengths));
}

std::size_t TensorShape::bytes() const {
  const std::size_t element = is_integer ? sizeof(std::int64_t) : sizeof(float);
  return checked_multiply(static_cast<std::size_t>(count()), element);
}

std::string describe(const TensorShapes& shapes) {
  std::string text;
  for (const auto& shape : shapes) {
    text += fmt::format("{}[{}]{}", text.empty() ? "" : ", ", fmt::join(shape.lengths, ", "),
                        shape.is_integer ? " of int64" : "");
  }
  return text.empty() ? "nothing" : text;
}

namespace {

bool is_integer(DataType type) {
  return type == DataType::int64 || type == DataType::int32;
}

bool has_own_tensors(SampleKind kind) {
  return kind == SampleKind::batch || kind == SampleKind::whole;
}

void require_usable(const Array& array, const Call& call, const std::string& argument) {
  const bool is_known =
      is_integer(array.type) || array.type == DataType::float32 || array.type == DataType::float64;
  if (!is_known) {
    refuse(call, argument,
           fmt::format("an array of {}; expected one of float64, float32, int64, int32",
                       name_of(array.type)));
  }
  if (array.dimensions < 1 || array.dimensions > most_array_dimensions) {
    refuse(call, argument,
           fmt::format("an array of {} dimensions; expected 1 to {}", array.dimensions,
                       most_array_dimensions));
  }
  if (array.data == nullptr) refuse(call, argument, "its address is null");
  for (const auto length : array.lengths()) {
    if (length >= 1) continue;
    refuse(call, argument,
           fmt::format("its shape is [{}]; every length must be 1 or more",
                       fmt::join(array.lengths(), ", ")));
  }
}

// Axis of columns, counted from 0.
std::size_t axis_of(const Array& array, std::int64_t given, const Call& call,
                    const std::string& argument) {
  const auto axis = given < 0 ? given + array.dimensions : given;
  if (axis < 0 || axis >= array.dimensions) {
    refuse(call, argument,
           fmt::format("it has {} dimensions, and training.column_axis is {}", array.dimensions,
                       given));
  }
  return static_cast<std::size_t>(axis);
}

}  // namespace

SampleArrays::SampleArrays(std::span<const Array> arrays, SampleKind kind, std::int64_t column_axis,
                           const Call& call, std::string_view argument) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto name = fmt::format("{}[{}]", argument, i);
    require_usable(arrays[i], call, name);
    const bool is_alike = i == 0 || std::ranges::equal(arrays[i].lengths(), arrays[0].lengths());
    if (!has_own_tensors(kind) && !is_alike) {
      refuse(call, name,
             fmt::format("its shape is [{}], and that of {}[0] is [{}]; with training.samples {} "
                         "all arrays of an argument have the same",
                         fmt::join(arrays[i].lengths(), ", "), argument,
                         fmt::join(arrays[0].lengths(), ", "), name_of(kind)));
    }
    if (kind == SampleKind::batch && arrays[i].shape[0] != arrays[0].shape[0]) {
      refuse(call, name,
             fmt::format("{} samples, its first dimension, but {} in {}[0]", arrays[i].shape[0],
                         arrays[0].shape[0], argument));
    }
    add_array(arrays[i], kind, column_axis, call, name);
  }
  if (!has_own_tensors(kind) && !arrays.empty()) {
    auto& lengths = shapes_.front().lengths;
    lengths.insert(lengths.begin(), narrow<std::int64_t>(arrays.size()));
  }
}

void SampleArrays::add_array(const Array& array, SampleKind kind, std::int64_t column_axis,
                             const Call& call, const std::string& argument) {
  Piece part{.array = &array};
  const auto axis = [&](std::size_t i) { return Axis{array.shape[i], array.stride[i]}; };
  const auto dimensions = static_cast<std::size_t>(array.dimensions);
  const auto column =
      kind == SampleKind::columns ? axis_of(array, column_axis, call, argument) : dimensions;
  TensorShape shape{.is_integer = has_own_tensors(kind) && is_integer(array.type)};
  for (std::size_t i = 0; i < dimensions; ++i) {
    const bool is_of_samples = (kind == SampleKind::batch && i == 0) || kind == SampleKind::cells ||
                               (kind == SampleKind::columns && i != column);
    const bool is_of_channels = kind == SampleKind::batch && i == 1;
    if (is_of_channels)
      part.channels = axis(i);
    else
      (is_of_samples ? part.of_samples : part.within).push_back(axis(i));
    if (!is_of_samples) shape.lengths.push_back(array.shape[i]);
  }
  // Networks give one number per sample as [N, 1].
  if (kind == SampleKind::batch && shape.lengths.empty() && !shape.is_integer) shape.lengths = {1};
  samples_ = 1;
  for (const auto& each : part.of_samples) samples_ = checked_multiply(samples_, each.length);
  slices_ = part.of_samples.empty() ? 1 : part.of_samples.front().length;
  if (has_own_tensors(kind) || shapes_.empty()) {
    shapes_.push_back(std::move(shape));
    pieces_.emplace_back();
  }
  part.first_channel = has_own_tensors(kind) ? 0 : narrow<std::int64_t>(pieces_.back().size());
  pieces_.back().push_back(std::move(part));
}

namespace {

// Adds loops over axes whose values are contiguous, with stride `last` along the last axis.
template <typename Axes>
void add_loops(Elements& elements, const Axes& axes, std::int64_t last) {
  std::int64_t apart = last;
  for (const auto& axis : axes) apart *= axis.length;
  for (const auto& axis : axes) {
    apart /= axis.length;
    elements.add({axis.length, axis.stride, apart});
  }
}

template <typename Axes>
std::int64_t product_of(const Axes& axes) {
  std::int64_t product = 1;
  for (const auto& axis : axes) product *= axis.length;
  return product;
}

}  // namespace

// Calls the function with the elements of each array, or of each of its channels, and their mean
// and factor. Samples' values are `sample_stride` apart. Without scales an array's channels are
// taken together, so contiguous elements are read in one loop.
template <typename Function>
void SampleArrays::for_each_run(std::size_t tensor, const Slices& slices,
                                std::int64_t sample_stride, const ChannelScales* scales,
                                const Function& function) const {
  const auto& last = pieces_[tensor].back();
  const auto channels = last.first_channel + last.channels.length;
  if (scales != nullptr && narrow<std::int64_t>(scales->mean.size()) != channels) {
    throw InputError(
        fmt::format("online: tensor {} has {} channels, but samples to learn from had {}, by whose "
                    "statistics it is normalized",
                    tensor, channels, scales->mean.size()));
  }
  for (const Piece& part : pieces_[tensor]) {
    const auto in_channel = product_of(part.within);
    auto of_samples = part.of_samples;
    std::int64_t first = 0;
    if (!of_samples.empty()) {
      first = slices.first * of_samples.front().stride;
      of_samples.front().length = slices.count;
    }
    const auto runs = scales == nullptr ? 1 : part.channels.length;
    for (std::int64_t run = 0; run < runs; ++run) {
      const auto channel = part.first_channel + run;
      Elements elements{.array = part.array,
                        .first_in_array = first + run * part.channels.stride,
                        .first_in_values = channel * in_channel};
      add_loops(elements, of_samples, sample_stride);
      if (scales == nullptr) elements.add({part.channels.length, part.channels.stride, in_channel});
      add_loops(elements, part.within, 1);
      const auto i = static_cast<std::size_t>(channel);
      if (scales == nullptr)
        function(elements, 0, 1);
      else
        function(elements, scales->mean[i], scales->factor[i]);
    }
  }
}

template <typename Value>
void SampleArrays::read(std::size_t tensor, Value* values, const ChannelScales* scales) const {
  for_each_run(tensor, {0, slices_}, shapes_[tensor].count(), scales,
               [&](const Elements& elements, double mean, double factor) {
                 read_elements(elements, values, mean, factor);
               });
}
template void SampleArrays::read(std::size_t, float*, const ChannelScales*) const;
template void SampleArrays::read(std::size_t, std::int64_t*, const ChannelScales*) const;

void SampleArrays::pack(std::int64_t first_slice, std::int64_t n_slices, std::byte* packed,
                        std::size_t packed_bytes) const {
  for (std::size_t tensor = 0; tensor < shapes_.size(); ++tensor) {
    const auto read_as = [&]<typename T>(T* values) {
      const auto stride = static_cast<std::int64_t>(packed_bytes / sizeof(T));
      for_each_run(tensor, {first_slice, n_slices}, stride, nullptr,
                   [&](const Elements& elements, double mean, double factor) {
                     read_elements(elements, values, mean, factor);
                   });
    };
    if (shapes_[tensor].is_integer)
      read_as(reinterpret_cast<std::int64_t*>(packed));
    else
      read_as(reinterpret_cast<float*>(packed));
    packed += shapes_[tensor].packed_bytes();
  }
}

template <typename Value>
void SampleArrays::write(std::size_t tensor, const Value* values,
                         const ChannelScales* scales) const {
  for_each_run(tensor, {0, slices_}, shapes_[tensor].count(), scales,
               [&](const Elements& elements, double mean, double factor) {
                 write_elements(elements, values, mean, 1 / factor);
               });
}
template void SampleArrays::write(std::size_t, const float*, const ChannelScales*) const;
template void SampleArrays::write(std::size_t, const std::int64_t*, const ChannelScales*) const;

}  // namespace kolo::online
