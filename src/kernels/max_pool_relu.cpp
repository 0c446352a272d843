#include "kernels/fused.h"

#include <cstdint>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/second_derivatives.h"
#include "kernels/convolution_kernel.h"
#include "kernels/loops.h"
#include "kernels/typed_values.h"

namespace kolo {

namespace {

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
                     input.options().memory_format(at::MemoryFormat::ChannelsLast));
    const auto winners = torch::empty({input.size(0), shape.pooled_values()}, torch::kInt);
    with_values(input, [&]<typename T>() {
      each_image(input, [&](std::int64_t image) {
        pool_image(shape, values_of<const T>(input) + image * shape.values(),
                   values_of<T>(output) + image * shape.pooled_values(),
                   winners.data_ptr<std::int32_t>() + image * shape.pooled_values());
      });
    });
    context->save_for_backward({winners});
    context->saved_data["size"] = input.sizes();
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivatives("nn: max_pool_relu");
    const auto winners = context->get_saved_variables()[0];
    const auto gradient = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    auto of_input = torch::empty(context->saved_data["size"].toIntVector(),
                                 gradient.options().memory_format(at::MemoryFormat::ChannelsLast));
    const auto shape = shape_of(of_input);
    with_values(gradient, [&]<typename T>() {
      each_image(of_input, [&](std::int64_t image) {
        unpool_image(shape, values_of<const T>(gradient) + image * shape.pooled_values(),
                     winners.data_ptr<std::int32_t>() + image * shape.pooled_values(),
                     values_of<T>(of_input) + image * shape.values());
      });
    });
    return {of_input};
  }
};

bool is_for_kernel(const torch::Tensor& input) {
  return has_loop_values(input) && input.dim() == 4 && input.size(1) > 1 && input.size(2) > 1 &&
         input.size(3) > 1 && input.is_contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace

// Images that lie innermost take the channels' place, and each channel is an image.
torch::Tensor max_pool_relu(const torch::Tensor& input) {
  if (PlainKernels::are_wanted()) return torch::max_pool2d(torch::relu(input), 2);
  if (input.dim() == 4 && has_batch_last(input) && is_for_kernel(input.transpose(0, 1)))
    return MaxPoolRelu::apply(input.transpose(0, 1)).transpose(0, 1);
  if (!is_for_kernel(input)) return torch::max_pool2d(torch::relu(input), 2);
  return MaxPoolRelu::apply(input);
}

}  // namespace kolo
