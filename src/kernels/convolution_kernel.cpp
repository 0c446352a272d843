#include "kernels/convolution_kernel.h"

#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "kernels/channel_sums.h"
#include "kolo/base/gradient_destination.h"

namespace kolo {

namespace {

// [kernel ..., second, first], the same memory.
torch::Tensor matrices_of(const torch::Tensor& weight) {
  return weight.movedim({1, 0}, {-2, -1});
}

// [first, second, taps], the same memory.
torch::Tensor with_one_dimension(const torch::Tensor& weight) {
  return weight.detach().view({weight.size(0), weight.size(1), -1});
}

}  // namespace

bool has_batch_last(const torch::Tensor& images) {
  return images.permute({1, 2, 3, 0}).is_contiguous();
}

torch::Tensor with_batch_last(const torch::Tensor& images) {
  return has_batch_last(images) ? images
                                : images.permute({1, 2, 3, 0}).contiguous().permute({3, 0, 1, 2});
}

torch::Tensor empty_with_batch_last(at::IntArrayRef shape, const torch::TensorOptions& options) {
  return torch::empty({shape[1], shape[2], shape[3], shape[0]}, options).permute({3, 0, 1, 2});
}

torch::Tensor taps_first(const torch::Tensor& weight) {
  return matrices_of(weight).contiguous().movedim({-2, -1}, {1, 0});
}

bool is_taps_first(const torch::Tensor& weight) {
  return matrices_of(weight).is_contiguous();
}

torch::Tensor by_taps(const torch::Tensor& weight) {
  auto room = room_by_taps(weight);
  if (!room.is_same(weight)) reorder(with_one_dimension(weight), room.permute({2, 1, 0}));
  return room;
}

torch::Tensor room_by_taps(const torch::Tensor& weight_gradient) {
  if (is_taps_first(weight_gradient)) return weight_gradient;
  const auto outputs = weight_gradient.size(0), inputs = weight_gradient.size(1);
  return torch::empty({weight_gradient.numel() / (outputs * inputs), inputs, outputs});
}

void copy_from_taps(const torch::Tensor& room, const torch::Tensor& weight_gradient) {
  if (!room.is_same(weight_gradient))
    reorder(room.permute({2, 1, 0}), with_one_dimension(weight_gradient));
}

torch::Tensor sum_by_channel(const torch::Tensor& tensor, MemoryOrder order) {
  const auto channels = tensor.size(1), others = tensor.numel() / channels;
  const bool is_last = order == MemoryOrder::channels_last;
  if (is_last && has_loop_values(tensor)) {
    const auto sums =
        sums_of_distances(tensor, std::vector<float>(static_cast<std::size_t>(channels)));
    return torch::tensor(std::vector<float>(sums.begin(), sums.begin() + channels));
  }
  const auto matrix = is_last ? tensor.as_strided({others, channels}, {channels, 1})
                              : tensor.as_strided({channels, others}, {others, 1});
  return torch::sum(matrix, at::IntArrayRef({is_last ? 0 : 1}), /*keepdim=*/false, torch::kFloat);
}

void add_bias(const torch::Tensor& output, std::int64_t channels, const torch::Tensor& bias) {
  const auto positions = output.numel() / channels;
  if (!has_loop_values(output)) {
    output.as_strided({positions, channels}, {channels, 1}).add_(bias.to(output.scalar_type()));
    return;
  }
  constexpr std::int64_t enough = 16;
  const auto repeats = channels < enough && positions % enough == 0 ? enough : 1;
  const auto addend = bias.repeat({repeats});
  const auto width = channels * repeats;
  with_values(output, [&]<typename T>() {
    at::parallel_for(0, positions / repeats, 4096, [&](std::int64_t begin, std::int64_t end) {
      add_to_rows({end - begin, width}, addend.data_ptr<float>(),
                  values_of<T>(output) + begin * width);
    });
  });
}

torch::Tensor destination_of_gradient(const torch::Tensor& parameter) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  if (!accumulator) return torch::empty_like(parameter);
  for (const auto& hook : accumulator->post_hooks()) {
    auto* const destination = dynamic_cast<GradientDestination*>(hook.get());
    if (destination == nullptr) continue;
    if (auto memory = destination->take()) {
      return torch::from_blob(
          memory.get(), parameter.sizes(), parameter.strides(), [memory](void*) {},
          parameter.options().requires_grad(false));
    }
  }
  return torch::empty_like(parameter);
}

std::vector<std::int64_t> ConvolutionGeometry::output_size() const {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < size.size(); ++i)
    result.push_back((size[i] + 2 * padding[i] - kernel[i]) / stride[i] + 1);
  return result;
}

}  // namespace kolo
