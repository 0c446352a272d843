#include "kernels/fused.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>

#include "base/second_derivatives.h"
#include "kernels/channel_sums.h"
#include "kernels/convolution_kernel.h"
#include "kernels/loops.h"

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

bool is_in_channels_last(const torch::Tensor& tensor) {
  return has_loop_values(tensor) && tensor.dim() == 4 &&
         tensor.is_contiguous(at::MemoryFormat::ChannelsLast);
}

bool is_for_kernel(const torch::Tensor& input) {
  return is_in_channels_last(input) && input.size(1) > 1 && input.size(2) > 1 && input.size(3) > 1;
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

namespace {

// A tensor's values from a row on; null for one that is not defined.
template <typename T>
T* at_row(const torch::Tensor& tensor, std::int64_t row, const ChannelRows& rows) {
  return tensor.defined() ? values_of<T>(tensor) + row * rows.channels : nullptr;
}

// Calls work(first row, the rows from there) on LibTorch's threads.
template <typename Work>
void side_by_side(const ChannelRows& rows, const Work& work) {
  constexpr std::int64_t values_worth_a_thread = 1 << 15;
  at::parallel_for(0, rows.count, values_worth_a_thread / rows.channels + 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     work(begin, ChannelRows{end - begin, rows.channels});
                   });
}

// Statistics of a batch, by channel.
struct Statistics {
  std::vector<double> mean, variance;  // the variance of these values themselves

  [[nodiscard]] std::size_t channels() const { return mean.size(); }
};

// The first row, which lies as near to the means as any.
std::vector<float> shift_of(const torch::Tensor& input) {
  const auto row =
      input.as_strided({input.size(1)}, {1}).to(torch::kFloat);  // it lies in channels-last memory
  const float* const values = row.data_ptr<float>();
  return {values, values + row.numel()};
}

Statistics statistics_of(const torch::Tensor& input) {
  const auto rows = rows_of(input);
  const auto shift = shift_of(input.detach());
  const auto sums = sums_of_distances(input, shift);
  const auto channels = static_cast<std::size_t>(rows.channels);
  const auto count = static_cast<double>(rows.count);
  Statistics statistics{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t i = 0; i < channels; ++i) {
    const double distance = sums[i] / count;
    statistics.mean[i] = distance + shift[i];
    const double variance = sums[channels + i] / count - distance * distance;
    statistics.variance[i] = variance < 0 ? 0 : variance;  // by rounding; a NaN stays one
  }
  return statistics;
}

// Updates the running mean and the unbiased running variance, as LibTorch's batch norm does.
void track(torch::nn::BatchNorm2dImpl& norm, const Statistics& statistics, std::int64_t count) {
  norm.num_batches_tracked.add_(1);
  const auto momentum = norm.options.momentum();
  const double factor = momentum ? *momentum : 1. / norm.num_batches_tracked.item().to<double>();
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  float* const mean = norm.running_mean.data_ptr<float>();
  float* const variance = norm.running_var.data_ptr<float>();
  const auto moved = [factor](float from, double to) {
    return static_cast<float>((1 - factor) * from + factor * to);
  };
  for (std::size_t i = 0; i < statistics.channels(); ++i) {
    mean[i] = moved(mean[i], statistics.mean[i]);
    variance[i] = moved(variance[i], unbiased * statistics.variance[i]);
  }
}

// Values that backward needs, [2, channels]: the mean and the inverse of the deviation.
torch::Tensor kept_of(const Statistics& statistics, double epsilon) {
  const auto channels = static_cast<std::int64_t>(statistics.channels());
  auto kept = torch::empty({2, channels}, torch::kDouble);
  double* const values = kept.data_ptr<double>();
  for (std::size_t i = 0; i < statistics.channels(); ++i) {
    values[i] = statistics.mean[i];
    values[statistics.channels() + i] = 1 / std::sqrt(statistics.variance[i] + epsilon);
  }
  return kept;
}

// slope x + offset is the normalized value.
struct Forward {
  std::vector<float> slope, offset;

  Forward(const torch::Tensor& weight, const torch::Tensor& bias, const torch::Tensor& kept) {
    const auto channels = static_cast<std::size_t>(weight.numel());
    const double* const mean = kept.data_ptr<double>();
    const double* const inverse = mean + channels;
    for (std::size_t i = 0; i < channels; ++i) {
      const double factor = weight.data_ptr<float>()[i] * inverse[i];
      slope.push_back(static_cast<float>(factor));
      offset.push_back(static_cast<float>(bias.data_ptr<float>()[i] - mean[i] * factor));
    }
  }
};

// slope g - tilt (x - mean) - level is the input's gradient (Ioffe and Szegedy, arXiv:1502.03167).
struct Backward {
  std::vector<float> slope, tilt, level;

  Backward(const torch::Tensor& weight, const torch::Tensor& kept, const std::vector<double>& sums,
           double count) {
    const auto channels = static_cast<std::size_t>(weight.numel());
    const double* const inverse = kept.data_ptr<double>() + channels;
    for (std::size_t i = 0; i < channels; ++i) {
      const double factor = weight.data_ptr<float>()[i] * inverse[i];
      slope.push_back(static_cast<float>(factor));
      tilt.push_back(
          static_cast<float>(factor * inverse[i] * inverse[i] * sums[channels + i] / count));
      level.push_back(static_cast<float>(factor * sums[i] / count));
    }
  }
};

class BatchNormFunction : public torch::autograd::Function<BatchNormFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias,
                               const c10::optional<torch::Tensor>& addend, bool relu,
                               const torch::Tensor& kept) {
    const auto rows = rows_of(input);
    const Forward line(weight, bias, kept);
    auto output = torch::empty_like(input);
    const auto added = addend.value_or(torch::Tensor());
    with_values(input, [&]<typename T>() {
      side_by_side(rows, [&](std::int64_t first, const ChannelRows& some) {
        normalize(some, at_row<T>(input, first, rows), line.slope.data(), line.offset.data(),
                  at_row<T>(added, first, rows), relu, at_row<T>(output, first, rows));
      });
    });
    context->save_for_backward({input, weight, bias, kept, relu ? output : torch::Tensor()});
    context->saved_data["adds"] = addend.has_value();
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivatives("nn: batch norm");
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &bias = saved[2], &kept = saved[3];
    RECORD_FUNCTION("kolo::batch_norm_backward", (std::vector<c10::IValue>{input, weight}));
    torch::Tensor output = saved[4];
    torch::Tensor gradient =
        gradients[0].to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const auto rows = rows_of(input);
    const auto channels = static_cast<std::size_t>(rows.channels);
    const double* const means = kept.data_ptr<double>();
    const std::vector<float> mean(means, means + channels);
    const bool adds = context->saved_data["adds"].toBool();
    const auto of_addend = adds && output.defined() ? torch::empty_like(input) : torch::Tensor();

    std::vector<double> sums;
    with_values(input, [&]<typename T>() {
      sums = sums_of(
          rows, [&](std::int64_t first, const ChannelRows& some, double* sum, double* product) {
            sum_gradients(some, at_row<T>(gradient, first, rows), at_row<T>(output, first, rows),
                          at_row<T>(input, first, rows), mean.data(),
                          at_row<T>(of_addend, first, rows), sum, product);
          });
    });
    if (of_addend.defined()) {
      gradient = of_addend;  // where the output is above 0, and needs no comparing any more
      output = torch::Tensor();
    }
    const Backward line(weight, kept, sums, static_cast<double>(rows.count));
    auto of_input = torch::empty_like(input);
    with_values(input, [&]<typename T>() {
      side_by_side(rows, [&](std::int64_t first, const ChannelRows& some) {
        normalize_gradient(some, at_row<T>(gradient, first, rows), at_row<T>(output, first, rows),
                           at_row<T>(input, first, rows), mean.data(), line.slope.data(),
                           line.tilt.data(), line.level.data(), at_row<T>(of_input, first, rows));
      });
    });
    auto of_weight = destination_of_gradient(weight), of_bias = destination_of_gradient(bias);
    for (std::size_t i = 0; i < channels; ++i) {
      of_weight.data_ptr<float>()[i] = static_cast<float>(sums[channels + i] * means[channels + i]);
      of_bias.data_ptr<float>()[i] = static_cast<float>(sums[i]);
    }
    return {of_input, of_weight, of_bias, adds ? gradient : torch::Tensor(), {}, {}};
  }
};

bool is_for_loops(const torch::nn::BatchNorm2dImpl& norm, const torch::Tensor& input,
                  const torch::Tensor& addend) {
  return !PlainKernels::are_wanted() && norm.is_training() && norm.options.affine() &&
         norm.options.track_running_stats() && norm.weight.scalar_type() == torch::kFloat &&
         is_in_channels_last(input) && input.size(1) == norm.options.num_features() &&
         input.numel() > input.size(1) &&
         (!addend.defined() ||
          (is_in_channels_last(addend) && addend.scalar_type() == input.scalar_type() &&
           addend.sizes() == input.sizes()));
}

torch::Tensor by_operators(torch::nn::BatchNorm2dImpl& norm, const torch::Tensor& input,
                           const torch::Tensor& addend, Activation activation) {
  auto output = norm.forward(input);
  if (addend.defined()) output = output.add_(addend);
  return activation == Activation::relu ? output.relu_() : output;
}

}  // namespace

torch::Tensor batch_norm(torch::nn::BatchNorm2dImpl& norm, const torch::Tensor& input,
                         const torch::Tensor& addend, Activation activation) {
  if (!is_for_loops(norm, input, addend)) return by_operators(norm, input, addend, activation);
  RECORD_FUNCTION("kolo::batch_norm", (std::vector<c10::IValue>{input, norm.weight}));
  const auto statistics = statistics_of(input);
  {
    const torch::NoGradGuard no_gradient;
    track(norm, statistics, rows_of(input).count);
  }
  const auto added = addend.defined() ? c10::make_optional(addend) : c10::nullopt;
  return BatchNormFunction::apply(input, norm.weight, norm.bias, added,
                                  activation == Activation::relu,
                                  kept_of(statistics, norm.options.eps()));
}

}  // namespace kolo
