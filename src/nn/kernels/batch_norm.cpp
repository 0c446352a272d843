#include "nn/kernels/batch_norm.h"

#include <vector>

#include <ATen/Parallel.h>

#include "kolo/base/error.h"
#include "nn/kernels/batch_norm_loops.h"
#include "nn/kernels/plain_kernels.h"

namespace kolo {

namespace {

constexpr auto channels_last = at::MemoryFormat::ChannelsLast;

ChannelRows rows_of(const torch::Tensor& tensor) {
  return {.count = tensor.numel() / tensor.size(1), .channels = tensor.size(1)};
}

float* data_of(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

float* at_row(float* data, std::int64_t row, const ChannelRows& rows) {
  return data == nullptr ? nullptr : data + row * rows.channels;
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

// Two sums a channel: of parts of the rows that don't depend on the number of threads, in the order
// of the rows, so that the result doesn't either.
template <typename Work>
std::array<torch::Tensor, 2> sums_of(const ChannelRows& rows, const Work& work) {
  constexpr std::int64_t values_a_part = 1 << 17;
  const auto rows_a_part = values_a_part / rows.channels + 1;
  const auto parts = (rows.count + rows_a_part - 1) / rows_a_part;
  const auto sums = torch::empty({parts, 2, rows.channels}, torch::kDouble);
  at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const auto first = part * rows_a_part;
      double* const into = sums.data_ptr<double>() + part * 2 * rows.channels;
      work(first, ChannelRows{std::min(rows_a_part, rows.count - first), rows.channels}, into,
           into + rows.channels);
    }
  });
  const auto total = parts == 1 ? sums[0] : sums.sum(0);
  return {total[0], total[1]};
}

struct Statistics {
  torch::Tensor mean, variance;  // by channel, float64; the variance of these values themselves
};

Statistics statistics_of(const torch::Tensor& input) {
  const auto rows = rows_of(input);
  float* const values = data_of(input);
  // The first row, which lies as near to the means as any.
  const auto [sums, squares] =
      sums_of(rows, [&](std::int64_t first, const ChannelRows& part, double* sum, double* square) {
        sum_distances(part, at_row(values, first, rows), values, sum, square);
      });
  const auto shift = torch::from_blob(values, {rows.channels}, torch::kFloat).to(torch::kDouble);
  const auto count = static_cast<double>(rows.count);
  const auto distance = sums / count;
  return {distance + shift, (squares / count - distance.square()).clamp_min_(0)};
}

void track(torch::nn::BatchNorm2dImpl& norm, const Statistics& statistics, std::int64_t count) {
  norm.num_batches_tracked.add_(1);
  const auto momentum = norm.options.momentum();
  const double factor = momentum ? *momentum : 1. / norm.num_batches_tracked.item().to<double>();
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  norm.running_mean.mul_(1 - factor).add_(statistics.mean.to(torch::kFloat), factor);
  norm.running_var.mul_(1 - factor).add_(statistics.variance.to(torch::kFloat), factor * unbiased);
}

class BatchNormFunction : public torch::autograd::Function<BatchNormFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias,
                               const c10::optional<torch::Tensor>& addend, bool relu,
                               const torch::Tensor& mean, const torch::Tensor& inverse_deviation) {
    const auto rows = rows_of(input);
    const auto slope = weight.to(torch::kDouble) * inverse_deviation;
    const auto offset = (bias.to(torch::kDouble) - mean * slope).to(torch::kFloat);
    const auto slope_values = slope.to(torch::kFloat);
    auto output = torch::empty_like(input);
    float* const added = data_of(addend.value_or(torch::Tensor()));
    side_by_side(rows, [&](std::int64_t first, const ChannelRows& part) {
      normalize(part, at_row(data_of(input), first, rows), data_of(slope_values), data_of(offset),
                at_row(added, first, rows), relu, at_row(data_of(output), first, rows));
    });
    context->save_for_backward(
        {input, weight, mean, inverse_deviation, relu ? output : torch::Tensor()});
    context->saved_data["adds"] = addend.has_value();
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw Error("nn: batch norm: has no second derivatives; drop create_graph");
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &inverse = saved[3];
    torch::Tensor output = saved[4];
    torch::Tensor gradient = gradients[0].contiguous(channels_last);
    const auto rows = rows_of(input);
    const auto mean = saved[2].to(torch::kFloat);
    const bool adds = context->saved_data["adds"].toBool();
    const auto of_addend = adds && output.defined() ? torch::empty_like(input) : torch::Tensor();

    const auto [sums, products] = sums_of(
        rows, [&](std::int64_t first, const ChannelRows& part, double* sum, double* product) {
          sum_gradients(part, at_row(data_of(gradient), first, rows),
                        at_row(data_of(output), first, rows), at_row(data_of(input), first, rows),
                        data_of(mean), at_row(data_of(of_addend), first, rows), sum, product);
        });
    if (of_addend.defined()) {
      gradient = of_addend;  // where the output is above 0, and needs no comparing any more
      output = torch::Tensor();
    }
    const auto count = static_cast<double>(rows.count);
    const auto slope = weight.to(torch::kDouble) * inverse;
    const auto tilt = (slope * inverse.square() * products / count).to(torch::kFloat);
    const auto level = (slope * sums / count).to(torch::kFloat);
    const auto slope_values = slope.to(torch::kFloat);
    auto of_input = torch::empty_like(input);
    side_by_side(rows, [&](std::int64_t first, const ChannelRows& part) {
      normalize_gradient(part, at_row(data_of(gradient), first, rows),
                         at_row(data_of(output), first, rows), at_row(data_of(input), first, rows),
                         data_of(mean), data_of(slope_values), data_of(tilt), data_of(level),
                         at_row(data_of(of_input), first, rows));
    });
    return {of_input,
            (products * inverse).to(torch::kFloat),
            sums.to(torch::kFloat),
            adds ? gradient : torch::Tensor(),
            {},
            {},
            {}};
  }
};

bool is_in_channels_last(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == torch::kFloat &&
         tensor.layout() == torch::kStrided && tensor.dim() == 4 &&
         tensor.is_contiguous(channels_last);
}

bool is_for_loops(const torch::nn::BatchNorm2dImpl& norm, const torch::Tensor& input,
                  const torch::Tensor& addend) {
  return !PlainKernels::are_wanted() && norm.is_training() && norm.options.affine() &&
         norm.options.track_running_stats() && norm.weight.scalar_type() == torch::kFloat &&
         is_in_channels_last(input) && input.size(1) == norm.options.num_features() &&
         input.numel() > input.size(1) &&
         (!addend.defined() || (is_in_channels_last(addend) && addend.sizes() == input.sizes()));
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
  Statistics statistics;
  {
    const torch::NoGradGuard no_gradient;
    statistics = statistics_of(input.detach());
    track(norm, statistics, rows_of(input).count);
  }
  const auto inverse_deviation = torch::rsqrt(statistics.variance + norm.options.eps());
  const auto added = addend.defined() ? c10::make_optional(addend) : c10::nullopt;
  return BatchNormFunction::apply(input, norm.weight, norm.bias, added,
                                  activation == Activation::relu, statistics.mean,
                                  inverse_deviation);
}

}  // namespace kolo
