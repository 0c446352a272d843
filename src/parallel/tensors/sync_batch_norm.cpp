#include "kolo/parallel/sync_batch_norm.h"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/autograd.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include "base/second_derivatives.h"
#include "kolo/base/error.h"
#include "kolo/parallel/autograd_communicator.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

// Mean and variance of the values of all ranks together, in float64, where the input is: nobody
// waits for a device to know them.
struct JointMoments {
  torch::Tensor count;    // values per channel: one number
  torch::Tensor mean;     // by channel
  torch::Tensor squares;  // by channel, the sum of the squared distances from the mean
};

// All dimensions but the channels'.
std::vector<std::int64_t> others(const torch::Tensor& input) {
  std::vector<std::int64_t> dimensions = {0};
  for (std::int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

// One value a channel, shaped to broadcast over the input.
torch::Tensor spread(const torch::Tensor& channels, const torch::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return channels.to(input.scalar_type()).view(shape);
}

// Moments of this rank's batch: [1 + 2 channels], the count, means and sums of squared distances.
torch::Tensor moments_of(const torch::Tensor& input, double count) {
  const auto options = input.options().dtype(torch::kDouble);
  if (count == 0) return torch::zeros({1 + 2 * input.size(1)}, options);
  const auto [variance, mean] = torch::var_mean(input, others(input), /*unbiased=*/false);
  return torch::cat({torch::full({1}, count, options), mean.to(torch::kDouble),
                     variance.to(torch::kDouble) * count});
}

// (input - mean) / sqrt(variance + eps) * weight + bias, by channel, with a variance of squares /
// count; autograd sees that the moments are the ranks' values'. The gradients of weight and bias
// are this rank's own. No second derivatives (Error).
class NormalizeJointly : public torch::autograd::Function<NormalizeJointly> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias, const Communicator& communicator,
                               const JointMoments& moments, double eps) {
    const auto inverse = torch::rsqrt(moments.squares / moments.count + eps);
    context->save_for_backward({input, weight, moments.mean, inverse, moments.count});
    keep_communicator(context, communicator);
    const auto scale = inverse * weight.detach();
    return (input - spread(moments.mean, input))
        .mul_(spread(scale, input))
        .add_(spread(bias.detach(), input));
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
    const auto scale = inverse * weight;
    const auto slope = means[1] * inverse * scale;
    auto of_input = (gradient - spread(means[0], input)).mul_(spread(scale, input));
    of_input.sub_(centred * spread(slope, input));

    const auto type = weight.scalar_type();
    return {of_input, dot.to(type), sum.to(type), {}, {}, {}};
  }
};

// Values of each channel of [N, C, ...] on this rank.
double values_per_channel(const torch::Tensor& input) {
  return input.size(1) == 0 ? 0 : static_cast<double>(input.numel() / input.size(1));
}

// One all-gather of all ranks' moments, combined without cancellation, bit-identical on all ranks.
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

void require_two_values(const JointMoments& moments, const torch::Tensor& input) {
  // A rank with two values of its own needs no count.
  if (values_per_channel(input) >= 2) return;
  const auto count = moments.count.item<double>();
  if (count >= 2) return;
  throw Error(fmt::format(
      "parallel: sync batch norm: in training all ranks together have {} values a channel, "
      "expected at least 2; use larger batches, or eval()",
      count));
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(Communicator communicator,
                                     const torch::nn::BatchNormOptions& options_)
    : NormImplBase(options_), communicator_(std::move(communicator)) {}

void SyncBatchNormImpl::_check_input_dim(const torch::Tensor& input) {
  if (input.dim() < 2 || input.size(1) != options.num_features() ||
      !torch::isFloatingType(input.scalar_type())) {
    throw Error(fmt::format(
        "parallel: sync batch norm: an input of {} with shape [{}]; expected a floating dtype and "
        "[N, {}, ...]",
        torch::toString(input.scalar_type()), c10::Join(", ", input.sizes()),
        options.num_features()));
  }
}

void SyncBatchNormImpl::share(const std::array<torch::Tensor, 2>& parameters,
                              const std::array<torch::Tensor, 3>& buffers) {
  if (options.affine()) {
    weight = parameters_["weight"] = parameters[0];
    bias = parameters_["bias"] = parameters[1];
  }
  if (!options.track_running_stats()) return;
  running_mean.set_data(buffers[0]);
  running_var.set_data(buffers[1]);
  num_batches_tracked.set_data(buffers[2]);
}

void SyncBatchNormImpl::track(const torch::Tensor& mean, const torch::Tensor& squares,
                              const torch::Tensor& count) {
  const torch::NoGradGuard no_gradient;
  num_batches_tracked += 1;
  const auto factor = options.momentum()
                          ? torch::full({}, options.momentum().value(), count.options())
                          : num_batches_tracked.to(torch::kDouble).reciprocal();
  running_mean.copy_(running_mean * (1 - factor) + mean * factor);
  running_var.copy_(running_var * (1 - factor) + squares * (factor / (count - 1)));
}

torch::Tensor SyncBatchNormImpl::forward(const torch::Tensor& input) {
  _check_input_dim(input);
  if (!is_training() && running_mean.defined()) {
    return torch::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/false, 0.,
                             options.eps(), /*cudnn_enabled=*/false);
  }
  const auto type = input.scalar_type();
  const auto wide = type == torch::kHalf || type == torch::kBFloat16 ? torch::kFloat : type;
  const auto values = input.to(wide);
  const auto moments = joint_moments(communicator_, values);
  require_two_values(moments, values);
  if (is_training() && running_mean.defined()) track(moments.mean, moments.squares, moments.count);
  // Autograd takes no undefined tensors.
  const auto slope = weight.defined() ? weight : torch::ones_like(moments.mean);
  const auto shift = bias.defined() ? bias : torch::zeros_like(moments.mean);
  return NormalizeJointly::apply(values, slope, shift, communicator_, moments, options.eps())
      .to(type);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kolo::SyncBatchNorm({}, eps={}, affine={}, ranks={})",
                        options.num_features(), options.eps(), options.affine(),
                        communicator_.size());
}

namespace {

// Calls visit with the module as the batch norm of LibTorch's that it is. False for others.
template <typename Visit>
bool as_batch_norm(const torch::nn::Module& module, const Visit& visit) {
  const auto as = [&](const auto* norm) {
    if (norm != nullptr) visit(*norm);
    return norm != nullptr;
  };
  return as(dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&module)) ||
         as(dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&module)) ||
         as(dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&module));
}

// Calls visit(parent, index, key, child, name) for all descendants, but for those of batch norms.
template <typename Visit>
void for_each_child(torch::nn::Module& module, const std::string& prefix, const Visit& visit) {
  std::ptrdiff_t index = 0;
  for (const auto& child : module.named_children()) {
    const std::string name = prefix + child.key();
    if (!visit(module, index++, child.key(), *child.value(), name))
      for_each_child(*child.value(), name + ".", visit);
  }
}

}  // namespace

std::vector<std::string> batch_norms_held_by_type(torch::nn::Module& module) {
  std::vector<std::string> names;
  const auto note = [&names]<std::size_t D, typename Derived>(
                        const torch::nn::BatchNormImplBase<D, Derived>&, const std::string& name) {
    names.push_back(fmt::format("{} (BatchNorm{}d)", name, D));
  };
  as_batch_norm(module, [&](const auto& norm) { note(norm, "the module itself"); });
  for_each_child(module, "",
                 [&](torch::nn::Module& parent, std::ptrdiff_t, const std::string&,
                     torch::nn::Module& child, const std::string& name) {
                   return as_batch_norm(child, [&](const auto& norm) {
                     if (!dynamic_cast<torch::nn::SequentialImpl*>(&parent)) note(norm, name);
                   });
                 });
  return names;
}

std::vector<std::string> convert_sync_batch_norm(const Communicator& communicator,
                                                 torch::nn::Module& module) {
  const auto held = batch_norms_held_by_type(module);
  if (!held.empty()) {
    throw Error(fmt::format(
        "parallel: convert_sync_batch_norm: {} can't be replaced: a member of a module keeps its "
        "type, and the module would go on using it. Make it a kolo::SyncBatchNorm, for example "
        "`kolo::SyncBatchNorm norm{{nullptr}};` and norm = register_module(\"norm\", "
        "kolo::SyncBatchNorm(ranks, torch::nn::BatchNormOptions(channels))) with `ranks` = "
        "world.split(0).value() for all layers, or part of a torch::nn::Sequential. Nothing was "
        "converted",
        fmt::join(held, ", ")));
  }
  const Communicator ranks = communicator.split(0, 0, "batch norm").value();
  std::vector<std::string> replaced;
  // A module that is there several times is replaced by one.
  std::map<const torch::nn::Module*, std::shared_ptr<SyncBatchNormImpl>> replacements;
  for_each_child(module, "",
                 [&](torch::nn::Module& parent, std::ptrdiff_t index, const std::string& key,
                     torch::nn::Module& child, const std::string& name) {
                   auto& replacement = replacements[&child];
                   const bool is_norm = as_batch_norm(child, [&](const auto& norm) {
                     if (!replacement)
                       replacement = std::make_shared<SyncBatchNormImpl>(ranks, norm);
                   });
                   if (!is_norm) return false;
                   auto& sequential = dynamic_cast<torch::nn::SequentialImpl&>(parent);
                   *(sequential.begin() + index) = torch::nn::AnyModule(replacement);
                   sequential.replace_module(key, replacement);
                   replaced.push_back(name);
                   return true;
                 });
  return replaced;
}

}  // namespace kolo
