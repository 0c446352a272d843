#include "kolo/parallel/sync_batch_norm.h"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include "kolo/base/error.h"
#include "parallel/tensors/joint_normalization.h"

namespace kolo {

namespace {

void require_two_values(const parallel::JointMoments& moments, const torch::Tensor& input) {
  // With two of its own nobody needs to look.
  if (parallel::values_per_channel(input) >= 2) return;
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
  const auto moments = parallel::joint_moments(communicator_, values);
  require_two_values(moments, values);
  if (is_training() && running_mean.defined()) track(moments.mean, moments.squares, moments.count);
  // Autograd takes no undefined tensors.
  const auto slope = weight.defined() ? weight : torch::ones_like(moments.mean);
  const auto shift = bias.defined() ? bias : torch::zeros_like(moments.mean);
  return parallel::normalize_jointly(communicator_, values, slope, shift, moments, options.eps())
      .to(type);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kolo::SyncBatchNorm({}, eps={}, affine={}, ranks={})",
                        options.num_features(), options.eps(), options.affine(),
                        communicator_.size());
}

namespace {

std::shared_ptr<SyncBatchNormImpl> replacement_of(const Communicator& communicator,
                                                  const torch::nn::Module& module) {
  if (const auto* one = dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&module))
    return std::make_shared<SyncBatchNormImpl>(communicator, *one);
  if (const auto* two = dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&module))
    return std::make_shared<SyncBatchNormImpl>(communicator, *two);
  if (const auto* three = dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&module))
    return std::make_shared<SyncBatchNormImpl>(communicator, *three);
  return nullptr;
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

// "BatchNorm2d"
std::string_view kind_of(const torch::nn::Module& module) {
  if (dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&module)) return "BatchNorm1d";
  if (dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&module)) return "BatchNorm2d";
  if (dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&module)) return "BatchNorm3d";
  return {};
}

}  // namespace

std::vector<std::string> batch_norms_held_by_type(torch::nn::Module& module) {
  std::vector<std::string> names;
  if (const auto kind = kind_of(module); !kind.empty())
    names.push_back(fmt::format("the module itself ({})", kind));
  for_each_child(module, "",
                 [&](torch::nn::Module& parent, std::ptrdiff_t, const std::string&,
                     torch::nn::Module& child, const std::string& name) {
                   const auto kind = kind_of(child);
                   if (kind.empty()) return false;
                   if (!dynamic_cast<torch::nn::SequentialImpl*>(&parent))
                     names.push_back(fmt::format("{} ({})", name, kind));
                   return true;
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
  const Communicator ranks = communicator.split(0).value();
  std::vector<std::string> replaced;
  // A module that is in several places still is.
  std::map<const torch::nn::Module*, std::shared_ptr<SyncBatchNormImpl>> replacements;
  for_each_child(module, "",
                 [&](torch::nn::Module& parent, std::ptrdiff_t index, const std::string& key,
                     torch::nn::Module& child, const std::string& name) {
                   auto& replacement = replacements[&child];
                   if (!replacement) replacement = replacement_of(ranks, child);
                   if (!replacement) return false;
                   auto& sequential = dynamic_cast<torch::nn::SequentialImpl&>(parent);
                   *(sequential.begin() + index) = torch::nn::AnyModule(replacement);
                   sequential.replace_module(key, replacement);
                   replaced.push_back(name);
                   return true;
                 });
  return replaced;
}

}  // namespace kolo
