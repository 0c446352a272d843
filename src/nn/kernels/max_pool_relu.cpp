#include "nn/kernels/max_pool_relu.h"

#include <ATen/Parallel.h>

#include "kolo/base/error.h"
#include "nn/kernels/batch_last.h"
#include "nn/kernels/plain_kernels.h"
#include "nn/kernels/pooling_loops.h"

namespace kolo {

namespace {

constexpr auto channels_last = at::MemoryFormat::ChannelsLast;

PoolingShape shape_of(const torch::Tensor& input) {
  return {.height = input.size(2), .width = input.size(3), .channels = input.size(1)};
}

template <typename Work>
void each_image(const torch::Tensor& images, const Work& work) {
  at::parallel_for(0, images.size(0), /*grain_size=*/1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t image = begin; image < end; ++image) work(image);
  });
}

class MaxPoolRelu : public torch::autograd::Function<MaxPoolRelu> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input) {
    const auto shape = shape_of(input);
    auto output =
        torch::empty({input.size(0), shape.channels, shape.pooled_height(), shape.pooled_width()},
                     input.options().memory_format(channels_last));
    const auto winners = torch::empty({input.size(0), shape.pooled_values()}, torch::kInt);
    each_image(input, [&](std::int64_t image) {
      pool_image(shape, input.data_ptr<float>() + image * shape.values(),
                 output.data_ptr<float>() + image * shape.pooled_values(),
                 winners.data_ptr<std::int32_t>() + image * shape.pooled_values());
    });
    context->save_for_backward({winners});
    context->saved_data["size"] = input.sizes();
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw Error("nn: max_pool_relu: has no second derivatives; drop create_graph");
    const auto winners = context->get_saved_variables()[0];
    const auto gradient = gradients[0].contiguous(channels_last);
    auto of_input = torch::empty(context->saved_data["size"].toIntVector(),
                                 gradient.options().memory_format(channels_last));
    const auto shape = shape_of(of_input);
    each_image(of_input, [&](std::int64_t image) {
      unpool_image(shape, gradient.data_ptr<float>() + image * shape.pooled_values(),
                   winners.data_ptr<std::int32_t>() + image * shape.pooled_values(),
                   of_input.data_ptr<float>() + image * shape.values());
    });
    return {of_input};
  }
};

bool is_for_kernel(const torch::Tensor& input) {
  return input.device().is_cpu() && input.scalar_type() == torch::kFloat &&
         input.layout() == torch::kStrided && input.dim() == 4 && input.size(1) > 1 &&
         input.size(2) > 1 && input.size(3) > 1 && input.is_contiguous(channels_last);
}

}  // namespace

// Where images lie innermost they take the channels' place, and each channel is an image.
torch::Tensor max_pool_relu(const torch::Tensor& input) {
  if (PlainKernels::are_wanted()) return torch::max_pool2d(torch::relu(input), 2);
  if (input.dim() == 4 && has_batch_last(input) && is_for_kernel(input.transpose(0, 1)))
    return MaxPoolRelu::apply(input.transpose(0, 1)).transpose(0, 1);
  if (!is_for_kernel(input)) return torch::max_pool2d(torch::relu(input), 2);
  return MaxPoolRelu::apply(input);
}

}  // namespace kolo
