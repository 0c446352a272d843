#include "parallel/tensors/joint_normalization.h"

#include <cstdint>
#include <vector>

#include <torch/autograd.h>

#include "base/second_derivatives.h"
#include "kolo/parallel/autograd_communicator.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo::parallel {

namespace {

// All dimensions but the channels'.
std::vector<std::int64_t> others(const torch::Tensor& input) {
  std::vector<std::int64_t> dimensions = {0};
  for (std::int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

// A value a channel, to be spread over the input.
torch::Tensor spread(const torch::Tensor& channels, const torch::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return channels.to(input.scalar_type()).view(shape);
}

// Of this rank's batch: [1 + 2 channels], the count, means and sums of squared distances.
torch::Tensor moments_of(const torch::Tensor& input, double count) {
  const auto options = input.options().dtype(torch::kDouble);
  if (count == 0) return torch::zeros({1 + 2 * input.size(1)}, options);
  const auto [variance, mean] = torch::var_mean(input, others(input), /*unbiased=*/false);
  return torch::cat({torch::full({1}, count, options), mean.to(torch::kDouble),
                     variance.to(torch::kDouble) * count});
}

// The normalization by statistics given, without those of its own.
class NormalizeJointly : public torch::autograd::Function<NormalizeJointly> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias, const Communicator& communicator,
                               const JointMoments& moments, double eps) {
    const auto inverse = torch::rsqrt(moments.squares / moments.count + eps);
    context->save_for_backward({input, weight, moments.mean, inverse, moments.count});
    keep_communicator(context, communicator);
    auto scale = inverse;
    if (weight.defined()) scale = scale * weight.detach();
    auto output = (input - spread(moments.mean, input)).mul_(spread(scale, input));
    if (bias.defined()) output.add_(spread(bias.detach(), input));
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivatives("parallel: a norm over several ranks");
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3],
               &count = saved[4];
    const auto& gradient = gradients[0];
    const auto centred = input - spread(mean, input);

    const auto sum = gradient.sum(others(input)).to(torch::kDouble);
    const auto dot = (gradient * centred).sum(others(input)).to(torch::kDouble) * inverse;
    const auto sums = torch::stack({sum, dot});
    kept_communicator(context).all_reduce(buffer_of(sums), ReduceOp::sum,
                                          {.name = "norm backward"});
    const auto means = sums / count;
    auto scale = inverse;
    if (weight.defined()) scale = scale * weight;
    const auto slope = means[1] * inverse * scale;
    auto of_input = (gradient - spread(means[0], input)).mul_(spread(scale, input));
    of_input.sub_(centred * spread(slope, input));

    torch::Tensor of_weight, of_bias;
    if (weight.defined()) {
      of_weight = dot.to(weight.scalar_type());
      of_bias = sum.to(weight.scalar_type());
    }
    return {of_input, of_weight, of_bias, {}, {}, {}};
  }
};

}  // namespace

double values_per_channel(const torch::Tensor& input) {
  return input.size(1) == 0 ? 0 : static_cast<double>(input.numel() / input.size(1));
}

JointMoments joint_moments(const Communicator& communicator, const torch::Tensor& input) {
  const torch::NoGradGuard no_gradient;
  const auto channels = input.size(1);
  const auto mine = moments_of(input, values_per_channel(input));
  const auto all = torch::empty({communicator.size(), mine.numel()}, mine.options());
  communicator.all_gather(buffer_of(mine), buffer_of(all), {.name = "norm forward"});
  const auto counts = all.narrow(1, 0, 1), means = all.narrow(1, 1, channels);
  JointMoments together;
  together.count = counts.sum();
  together.mean = (means * counts).sum(0) / together.count.clamp_min(1);
  together.squares = all.narrow(1, channels + 1, channels).sum(0) +
                     ((means - together.mean).square() * counts).sum(0);
  return together;
}

torch::Tensor normalize_jointly(const Communicator& communicator, const torch::Tensor& input,
                                const torch::Tensor& weight, const torch::Tensor& bias,
                                const JointMoments& moments, double eps) {
  return NormalizeJointly::apply(input, weight, bias, communicator, moments, eps);
}

}  // namespace kolo::parallel
