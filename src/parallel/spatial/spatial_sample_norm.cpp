#include <cstdint>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/parallel/spatial_layers.h"
#include "kolo/parallel/spatial_step.h"
#include "parallel/tensors/joint_normalization.h"

// Instance and group norm: means and variances of single samples, whose rows several ranks have.
namespace kolo {

namespace {

void require_channels(const SpatialPart& input, std::int64_t channels, std::string_view name) {
  const auto& tensor = input.tensor;
  if (tensor.dim() >= 3 && tensor.size(1) == channels &&
      torch::isFloatingType(tensor.scalar_type()))
    return;
  throw Error(fmt::format(
      "parallel: {}: a part of {} with shape [{}]; expected a floating dtype and [N, {}, rows ...]",
      name, torch::toString(tensor.scalar_type()), c10::Join(", ", tensor.sizes()), channels));
}

// All values of a sample that are normalized together as one channel: [1, N x groups, values].
struct SampleGroups {
  torch::Tensor values;
  Communicator ranks = Communicator::solo();  // that have the others
  double copies = 1;                          // ranks among them that have the same values
  parallel::JointMoments moments;
};

SampleGroups groups_of(const DeviceMesh& mesh, const SpatialPart& input, std::int64_t groups) {
  const auto& tensor = input.tensor;
  const auto type = tensor.scalar_type();
  const auto wide = type == torch::kHalf || type == torch::kBFloat16 ? torch::kFloat : type;
  SampleGroups result;
  result.values = tensor.to(wide).reshape({1, tensor.size(0) * groups, tensor[0].numel() / groups});
  const auto copies = copies_of(mesh, input);
  // Where every rank has whole samples nothing has to travel.
  if (copies < mesh.spatial().size()) {
    result.ranks = mesh.spatial();
    result.copies = static_cast<double>(copies);
  }
  result.moments = parallel::joint_moments(result.ranks, result.values);
  return result;
}

// `weight` and `bias` by channel of `groups.values`, undefined: 1 and 0.
torch::Tensor normalized(const SampleGroups& groups, const torch::Tensor& weight,
                         const torch::Tensor& bias, double eps) {
  // Autograd takes no undefined tensors.
  const auto& mean = groups.moments.mean;
  return parallel::normalize_jointly(
      groups.ranks, groups.values, weight.defined() ? weight : torch::ones_like(mean),
      bias.defined() ? bias : torch::zeros_like(mean), groups.moments, eps);
}

// In the shape, type and memory format of the part.
torch::Tensor shaped_like(const torch::Tensor& values, const torch::Tensor& part) {
  return values.view(part.sizes()).to(part.scalar_type()).contiguous(part.suggest_memory_format());
}

torch::Tensor repeated(const torch::Tensor& by_channel, std::int64_t samples) {
  return by_channel.defined() ? by_channel.repeat({samples}) : by_channel;
}

}  // namespace

SpatialInstanceNormImpl::SpatialInstanceNormImpl(DeviceMesh mesh,
                                                 const torch::nn::InstanceNormOptions& options_)
    : NormImplBase(options_), mesh_(std::move(mesh)) {}

void SpatialInstanceNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format(
      "kolo::SpatialInstanceNorm({}, eps={}, momentum={}, affine={}, track_running_stats={}, "
      "mesh={})",
      options.num_features(), options.eps(), options.momentum(), options.affine(),
      options.track_running_stats(), mesh_.shape().describe());
}

// The means over the samples, as LibTorch's.
void SpatialInstanceNormImpl::track(const torch::Tensor& mean, const torch::Tensor& variance) {
  const torch::NoGradGuard no_gradient;
  const auto momentum = options.momentum();
  const auto mean_of_samples = [&](const torch::Tensor& values) {
    return values.view({-1, options.num_features()}).mean(0);
  };
  running_mean.copy_(running_mean * (1 - momentum) + mean_of_samples(mean) * momentum);
  running_var.copy_(running_var * (1 - momentum) + mean_of_samples(variance) * momentum);
}

SpatialPart SpatialInstanceNormImpl::forward(const SpatialPart& input) {
  const auto channels = options.num_features();
  require_channels(input, channels, "spatial instance norm");
  if (!is_training() && running_mean.defined()) {
    return {torch::batch_norm(input.tensor, weight, bias, running_mean, running_var,
                              /*training=*/false, 0., options.eps(), /*cudnn_enabled=*/false),
            input.axes};
  }
  std::int64_t rows = 1;
  for (const auto& axis : input.axes) rows *= axis.cut.length();
  if (rows < 2) {
    throw Error(
        "parallel: spatial instance norm: samples have one value per channel, expected at least 2");
  }
  const auto groups = groups_of(mesh_, input, channels);
  if (is_training() && running_mean.defined()) {
    const auto& moments = groups.moments;
    track(moments.mean, moments.squares / groups.copies / (moments.count / groups.copies - 1));
  }
  const auto samples = input.tensor.size(0);
  const auto output =
      normalized(groups, repeated(weight, samples), repeated(bias, samples), options.eps());
  return {shaped_like(output, input.tensor), input.axes};
}

SpatialGroupNormImpl::SpatialGroupNormImpl(DeviceMesh mesh,
                                           const torch::nn::GroupNormOptions& options_)
    : options(options_), mesh_(std::move(mesh)) {
  const auto groups = options.num_groups(), channels = options.num_channels();
  if (groups < 1 || channels % groups != 0) {
    throw InputError(fmt::format(
        "parallel: spatial group norm: {} channels in {} groups; expected a number of groups that "
        "divides the channels",
        channels, groups));
  }
  reset();
}

void SpatialGroupNormImpl::reset() {
  const auto channels = options.num_channels();
  const bool is_affine = options.affine();
  weight = register_parameter("weight", is_affine ? torch::ones({channels}) : torch::Tensor(),
                              is_affine);
  bias =
      register_parameter("bias", is_affine ? torch::zeros({channels}) : torch::Tensor(), is_affine);
}

void SpatialGroupNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kolo::SpatialGroupNorm({}, {}, eps={}, affine={}, mesh={})",
                        options.num_groups(), options.num_channels(), options.eps(),
                        options.affine(), mesh_.shape().describe());
}

SpatialPart SpatialGroupNormImpl::forward(const SpatialPart& input) {
  require_channels(input, options.num_channels(), "spatial group norm");
  const auto groups = groups_of(mesh_, input, options.num_groups());
  auto output = normalized(groups, {}, {}, options.eps()).view(input.tensor.sizes());
  if (options.affine()) {
    std::vector<std::int64_t> by_channel(static_cast<std::size_t>(input.tensor.dim()), 1);
    by_channel[1] = -1;
    output = torch::addcmul(bias.view(by_channel), output, weight.view(by_channel));
  }
  return {shaped_like(output, input.tensor), input.axes};
}

}  // namespace kolo
