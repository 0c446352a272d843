#pragma once

#include <cstddef>
#include <ostream>
#include <utility>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/options/instancenorm.h>
#include <torch/nn/options/normalization.h>
#include <torch/nn/options/pooling.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "kolo/parallel/device_mesh.h"
#include "kolo/parallel/spatial_part.h"
#include "kolo/parallel/sync_batch_norm.h"

// torch::nn's layers for samples that several ranks share: each computes this rank's rows of what
// the layer makes of the whole sample, to rounding, and has the parameters of torch::nn's layer, by
// name. Rows that a rank lacks come from its neighbours (kolo/parallel/halo_exchange.h). The same
// on LibTorch's devices.
//
// Where a level is too small to be cut (kolo/layout/spatial_plan.h says when), it is gathered,
// every rank computes all of it, and the next layer that can be cut takes its rank's part again;
// SpatialPart says which axes are whole. Gradients are right, but that work is not shared.
//
// Gradients of parameters are what this rank's rows contribute, so that averaging them over all
// ranks, with losses multiplied by loss_factor(), makes the gradient of the mean loss. All ranks of
// the mesh's spatial group go through forward and backward of the same layers in the same order.
// Error for a part with another number of axes, InputError for lengths that the layer doesn't take.
namespace kolo {

// torch::nn::Conv1d to Conv3d with any kernel, stride, padding (also `same`, where both sides get
// as much), dilation and groups. Padding modes: zeros, or circular, along whose axes the first and
// the last rank are neighbours; Error for others.
template <std::size_t D>
class SpatialConvImpl : public torch::nn::ConvNdImpl<D, SpatialConvImpl<D>> {
 public:
  SpatialConvImpl(DeviceMesh mesh, const torch::nn::ConvOptions<D>& options);
  SpatialPart forward(const SpatialPart& input);

 private:
  DeviceMesh mesh_;
};

// torch::nn::ConvTranspose1d to ConvTranspose3d, with output_padding: rows that it makes beyond
// this rank's are added to its neighbours', the bias after that.
template <std::size_t D>
class SpatialConvTransposeImpl : public torch::nn::ConvNdImpl<D, SpatialConvTransposeImpl<D>> {
 public:
  SpatialConvTransposeImpl(DeviceMesh mesh, const torch::nn::ConvTransposeOptions<D>& options);
  // The output is cut as evenly as its input's cut allows.
  SpatialPart forward(const SpatialPart& input);
  // Cut as `like`, so that both can be concatenated where they are. Error where `like` is not as
  // long as the output.
  SpatialPart forward_like(const SpatialPart& input, const SpatialPart& like);

 private:
  SpatialPart folded(const SpatialPart& input, const SpatialPart* like);

  DeviceMesh mesh_;
};

// torch::nn::MaxPool1d to MaxPool3d; Error for ceil_mode.
template <std::size_t D>
class SpatialMaxPoolImpl : public torch::nn::Cloneable<SpatialMaxPoolImpl<D>> {
 public:
  SpatialMaxPoolImpl(DeviceMesh mesh, const torch::nn::MaxPoolOptions<D>& options);
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  SpatialPart forward(const SpatialPart& input);

  torch::nn::MaxPoolOptions<D> options;

 private:
  DeviceMesh mesh_;
};

// torch::nn::AvgPool1d to AvgPool3d; Error for ceil_mode.
template <std::size_t D>
class SpatialAvgPoolImpl : public torch::nn::Cloneable<SpatialAvgPoolImpl<D>> {
 public:
  SpatialAvgPoolImpl(DeviceMesh mesh, const torch::nn::AvgPoolOptions<D>& options);
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  SpatialPart forward(const SpatialPart& input);

  torch::nn::AvgPoolOptions<D> options;

 private:
  DeviceMesh mesh_;
};

// torch::nn::AdaptiveAvgPool1d to 3d with an output of 1: the mean of each channel of each sample,
// [N, C, 1, ...], whole on every rank. One all-reduce each way.
class SpatialGlobalAvgPoolImpl : public torch::nn::Cloneable<SpatialGlobalAvgPoolImpl> {
 public:
  explicit SpatialGlobalAvgPoolImpl(DeviceMesh mesh) : mesh_(std::move(mesh)) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  SpatialPart forward(const SpatialPart& input);

 private:
  DeviceMesh mesh_;
};

// Whose values a batch norm takes its mean and variance of.
enum class NormGroup {
  spatial,   // the samples of this spatial group, as batch norm without spatial axes
  replicas,  // all samples, as SyncBatchNorm
};

// torch::nn::BatchNorm1d to BatchNorm3d.
class SpatialBatchNormImpl : public SyncBatchNormImpl {
 public:
  SpatialBatchNormImpl(const DeviceMesh& mesh, const torch::nn::BatchNormOptions& options,
                       NormGroup group = NormGroup::spatial);
  SpatialPart forward(const SpatialPart& input);

 private:
  DeviceMesh mesh_;
};

// torch::nn::InstanceNorm1d to InstanceNorm3d on batches: the mean and variance of each channel of
// each sample, of all its rows. In evaluation with running statistics nothing travels, nor where
// every rank has whole samples; otherwise forward is one all-gather of 2 N C + 1 float64 and
// backward one all-reduce of 2 N C, as those of SyncBatchNorm. Running statistics are the mean over
// this group's samples, on all of its ranks. Error for samples with one value per channel. No
// second derivatives (Error). (Ulyanov et al., arXiv:1607.08022.)
class SpatialInstanceNormImpl
    : public torch::nn::NormImplBase<1, SpatialInstanceNormImpl, torch::nn::InstanceNormOptions> {
 public:
  SpatialInstanceNormImpl(DeviceMesh mesh, const torch::nn::InstanceNormOptions& options);
  SpatialPart forward(const SpatialPart& input);
  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const torch::Tensor& /*input*/) override {}
  void track(const torch::Tensor& mean, const torch::Tensor& variance);

  DeviceMesh mesh_;
};

// torch::nn::GroupNorm, also with one group (layer norm over channels and rows): the mean and
// variance of each group of channels of each sample. Costs and errors as SpatialInstanceNorm, by
// group instead of channel; InputError where the groups don't divide the channels. (Wu and He,
// arXiv:1803.08494.)
class SpatialGroupNormImpl : public torch::nn::Cloneable<SpatialGroupNormImpl> {
 public:
  SpatialGroupNormImpl(DeviceMesh mesh, const torch::nn::GroupNormOptions& options);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  SpatialPart forward(const SpatialPart& input);

  torch::nn::GroupNormOptions options;
  torch::Tensor weight, bias;  // [C]; undefined where options.affine() is false

 private:
  DeviceMesh mesh_;
};

using SpatialConv1dImpl = SpatialConvImpl<1>;
using SpatialConv2dImpl = SpatialConvImpl<2>;
using SpatialConv3dImpl = SpatialConvImpl<3>;
TORCH_MODULE(SpatialConv1d);
TORCH_MODULE(SpatialConv2d);
TORCH_MODULE(SpatialConv3d);

using SpatialConvTranspose1dImpl = SpatialConvTransposeImpl<1>;
using SpatialConvTranspose2dImpl = SpatialConvTransposeImpl<2>;
using SpatialConvTranspose3dImpl = SpatialConvTransposeImpl<3>;
TORCH_MODULE(SpatialConvTranspose1d);
TORCH_MODULE(SpatialConvTranspose2d);
TORCH_MODULE(SpatialConvTranspose3d);

using SpatialMaxPool1dImpl = SpatialMaxPoolImpl<1>;
using SpatialMaxPool2dImpl = SpatialMaxPoolImpl<2>;
using SpatialMaxPool3dImpl = SpatialMaxPoolImpl<3>;
TORCH_MODULE(SpatialMaxPool1d);
TORCH_MODULE(SpatialMaxPool2d);
TORCH_MODULE(SpatialMaxPool3d);

using SpatialAvgPool1dImpl = SpatialAvgPoolImpl<1>;
using SpatialAvgPool2dImpl = SpatialAvgPoolImpl<2>;
using SpatialAvgPool3dImpl = SpatialAvgPoolImpl<3>;
TORCH_MODULE(SpatialAvgPool1d);
TORCH_MODULE(SpatialAvgPool2d);
TORCH_MODULE(SpatialAvgPool3d);

TORCH_MODULE(SpatialGlobalAvgPool);
TORCH_MODULE(SpatialBatchNorm);
TORCH_MODULE(SpatialInstanceNorm);
TORCH_MODULE(SpatialGroupNorm);

}  // namespace kolo
