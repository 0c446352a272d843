#include <random>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kolo/base/error.h"
#include "online/samples.h"
#include "online/tensor_array.h"
#include "support/errors.h"

namespace kolo::online {
namespace {

using testing::array_of;

const Call here{"push", 3};

// Tensor with random strides: a slice of a larger tensor with permuted dimensions.
torch::Tensor random_view(std::mt19937& random, std::vector<std::int64_t> lengths,
                          torch::ScalarType type) {
  auto draw = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
  std::vector<std::int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::int64_t> larger;
  for (const auto axis : order)
    larger.push_back(lengths[static_cast<std::size_t>(axis)] * draw(1, 2) + draw(0, 3));
  auto memory = torch::randint(-1000, 1000, larger, torch::kLong).to(type);
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  auto view = memory.permute(back);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    const int step = view.size(axis) >= 2 * lengths[i] ? draw(1, 2) : 1;
    view = view.slice(axis, 0, step * lengths[i], step);
  }
  return view;
}

// Samples of arrays by LibTorch's own operators: [samples, lengths...].
torch::Tensor expected(SampleKind kind, const std::vector<torch::Tensor>& arrays,
                       std::int64_t column) {
  std::vector<torch::Tensor> channels;
  for (const auto& array : arrays) channels.push_back(array.to(torch::kFloat));
  switch (kind) {
    case SampleKind::fields:
      return torch::stack(channels).unsqueeze(0);
    case SampleKind::cells:
      for (auto& channel : channels) channel = channel.reshape({-1});
      return torch::stack(channels, 1);
    case SampleKind::columns:
      for (auto& channel : channels) {
        const auto length = channel.size(column);
        channel = channel.movedim(column, -1).reshape({-1, length});
      }
      return torch::stack(channels, 1);
    default:
      return channels.front();
  }
}

TEST(SampleArrays, AreWhatLibTorchMakesOfThem) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  auto draw = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
  for (int round = 0; round < 300; ++round) {
    const auto kind = std::array{SampleKind::batch, SampleKind::fields, SampleKind::cells,
                                 SampleKind::columns, SampleKind::whole}[draw(0, 4)];
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(draw(1, 5)));
    for (auto& length : lengths) length = draw(1, 4);
    const bool has_one = kind == SampleKind::batch || kind == SampleKind::whole;
    const int arrays = has_one ? 1 : draw(1, 3);
    const auto column = static_cast<std::int64_t>(draw(0, static_cast<int>(lengths.size()) - 1));
    std::vector<torch::Tensor> tensors;
    std::vector<Array> given;
    for (int i = 0; i < arrays; ++i) {
      const auto type = has_one ? torch::kDouble
                                : std::array{torch::kDouble, torch::kFloat, torch::kLong,
                                             torch::kInt}[draw(0, 3)];
      tensors.push_back(random_view(random, lengths, type));
      given.push_back(array_of(tensors.back()));
    }
    const SampleArrays samples(given, kind, column - static_cast<std::int64_t>(lengths.size()),
                               here, "inputs");
    auto wanted = expected(kind, tensors, column);
    if (kind == SampleKind::whole) wanted = wanted.unsqueeze(0);
    ASSERT_EQ(samples.samples(), wanted.size(0));
    auto found = torch::empty(wanted.sizes());
    samples.read(0, found.data_ptr<float>(), nullptr);
    ASSERT_TRUE(torch::equal(found, wanted)) << name_of(kind);
    // Slices are read as records that are larger than the tensor.
    const auto in_slice = samples.samples() / samples.slices();
    const auto record = samples.shapes()[0].packed_bytes() + 16;
    for (std::int64_t slice = 0; slice < samples.slices(); ++slice) {
      std::vector<std::byte> records(record * static_cast<std::size_t>(in_slice));
      samples.pack(slice, 1, records.data(), record);
      for (std::int64_t i = 0; i < in_slice; ++i) {
        const auto* const first =
            reinterpret_cast<const float*>(records.data() + static_cast<std::size_t>(i) * record);
        const auto row = wanted[slice * in_slice + i].contiguous();
        ASSERT_TRUE(std::equal(first, first + row.numel(), row.data_ptr<float>()));
      }
    }
    // Values are written back into the arrays.
    for (auto& tensor : tensors) tensor.fill_(7);
    samples.write(0, found.data_ptr<float>(), nullptr);
    ASSERT_TRUE(torch::equal(expected(kind, tensors, column).reshape(wanted.sizes()), wanted));
  }
}

TEST(SampleArrays, AreNormalizedByChannel) {
  auto field = torch::randn({4, 3, 5}, torch::kDouble);
  const std::vector<Array> arrays = {array_of(field)};
  const SampleArrays samples(arrays, SampleKind::batch, -1, here, "inputs");
  const ChannelScales scales{{1, -2, 1e6}, {2, .5, 3}};
  auto found = torch::empty({4, 3, 5});
  samples.read(0, found.data_ptr<float>(), &scales);
  const auto shape = std::vector<std::int64_t>{1, 3, 1};
  const auto mean = torch::tensor(scales.mean, torch::kDouble).view(shape);
  const auto factor = torch::tensor(scales.factor, torch::kDouble).view(shape);
  EXPECT_TRUE(torch::equal(found, ((field - mean) * factor).to(torch::kFloat)));
  const auto before = field.clone();
  field.zero_();
  samples.write(0, found.data_ptr<float>(), &scales);
  EXPECT_TRUE(torch::allclose(field, before, 1e-6, 1e-6 * 1e6));
}

// A network is given the same numbers for training, from packed memory, as to infer.
TEST(SampleArrays, AreNormalizedAlikeFromPackedMemory) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> offset(-1e5, 1e5);
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    const ChannelScales scales{{offset(random), offset(random)}, {7.3, 1. / 3}};
    const auto mean = torch::tensor(scales.mean, torch::kDouble).view({2, 1});
    const auto factor = torch::tensor(scales.factor, torch::kDouble).view({2, 1});
    // Numbers of float32, in arrays of either type.
    auto field = (torch::randn({4, 2, 5}) + mean).to(torch::kFloat).to(type);
    const std::vector<Array> arrays = {array_of(field)};
    const SampleArguments arguments(arrays, arrays, {}, {}, here);
    const auto shapes = arguments.shapes();
    const auto bytes = shapes.inputs.front().packed_bytes();
    std::vector<std::byte> packed(4 * 2 * bytes);
    arguments.inputs.pack(0, 4, packed.data(), 2 * bytes);
    arguments.targets.pack(0, 4, packed.data() + bytes, 2 * bytes);
    std::vector<std::span<const std::byte>> samples;
    for (std::size_t i = 0; i < 4; ++i)
      samples.push_back(std::span(packed).subspan(i * 2 * bytes, 2 * bytes));
    const Normalization normalization{{scales}, {scales}};
    const auto expected = ((field.to(torch::kDouble) - mean) * factor).to(torch::kFloat);
    for (const auto& found : {tensors_of(arguments, true, normalization),
                              tensors_of(samples, shapes, true, normalization)}) {
      EXPECT_TRUE(torch::equal(found.inputs.front(), expected));
      EXPECT_TRUE(torch::equal(found.targets.front(), expected));
    }
  }
}

TEST(SampleArrays, RefuseWhatIsNone) {
  std::vector<float> values(24);
  const auto refused = [&](std::vector<Array> arrays, SampleKind kind) {
    return testing::message_of<InputError>([&] { SampleArrays(arrays, kind, -1, here, "inputs"); });
  };
  const Array good(values.data(), {2, 3, 4});
  EXPECT_EQ(refused({good, Array(values.data(), {2, 3, 3})}, SampleKind::cells),
            "online: push on rank 3: inputs[1]: its shape is [2, 3, 3], and that of inputs[0] is "
            "[2, 3, 4]; with training.samples cells all arrays of an argument have the same");
  EXPECT_EQ(refused({good, Array(values.data(), {3, 2})}, SampleKind::batch),
            "online: push on rank 3: inputs[1]: 3 samples, its first dimension, but 2 in "
            "inputs[0]");
  EXPECT_EQ(refused({Array(values.data(), {2, 0})}, SampleKind::batch),
            "online: push on rank 3: inputs[0]: its shape is [2, 0]; every length must be 1 or "
            "more");
  EXPECT_EQ(refused({Array(static_cast<float*>(nullptr), {2})}, SampleKind::batch),
            "online: push on rank 3: inputs[0]: its address is null");
  std::vector<std::int8_t> bytes(4);
  EXPECT_EQ(refused({Array(bytes.data(), {4})}, SampleKind::batch),
            "online: push on rank 3: inputs[0]: an array of int8; expected one of float64, "
            "float32, int64, int32");
}

}  // namespace
}  // namespace kolo::online
