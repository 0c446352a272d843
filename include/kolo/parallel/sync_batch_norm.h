#pragma once

#include <array>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"

namespace kolo {

// Batch normalization over the batches of all ranks together: output, input gradient and running
// statistics are those of torch::nn::BatchNorm1d, 2d or 3d on the ranks' batches concatenated,
// whose parameters and buffers it has, by name. Batches may differ in size, and be empty on some
// ranks. Input [N, C] or [N, C, ...] of a floating dtype. (Ioffe and Szegedy, arXiv:1502.03167.)
//
// The gradients of weight and bias are each rank's own, to be averaged like all others. In
// evaluation with running statistics nothing is communicated. In training each forward is one
// all-gather of 2 C + 1 float64 and each backward one all-reduce of 2 C; means and variances are
// combined without cancellation (Chan, Golub and LeVeque, 1979), bit-identical on all ranks. Error
// in training when all ranks together have less than two values a channel. No second derivatives
// (Error).
//
// These collectives take place wherever the thread that runs forward and backward gets to them. So
// that they can't change places with those of a GradientReducer, on any rank, give the layers a
// communicator of their own, one for all of them: communicator.split(0).value(). Where
// capabilities().concurrent is false that doesn't help; it takes ranks whose graphs are the same.
class SyncBatchNormImpl
    : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  SyncBatchNormImpl(Communicator communicator, const torch::nn::BatchNormOptions& options);

  // In the place of another batch norm, with its options, parameters and buffers (the very
  // tensors, so optimizers that have them stay valid).
  template <std::size_t D, typename Derived>
  SyncBatchNormImpl(Communicator communicator,
                    const torch::nn::BatchNormImplBase<D, Derived>& source)
      : SyncBatchNormImpl(std::move(communicator), source.options) {
    share({source.weight, source.bias},
          {source.running_mean, source.running_var, source.num_batches_tracked});
    train(source.is_training());
  }

  torch::Tensor forward(const torch::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const torch::Tensor& input) override;
  void share(const std::array<torch::Tensor, 2>& parameters,
             const std::array<torch::Tensor, 3>& buffers);
  void track(const torch::Tensor& mean, const torch::Tensor& squares, const torch::Tensor& count);

  Communicator communicator_;
};
TORCH_MODULE(SyncBatchNorm);

// Replaces every BatchNorm1d, 2d and 3d in the module's Sequentials, at any depth, by a
// SyncBatchNorm in its place (see its constructor); returns their names. A batch norm that is a
// member of a module of one's own is held by its type, and LibTorch has no way to replace it: an
// Error that names all of them, before anything is changed; make those members SyncBatchNorm, which
// takes the same options and any number of dimensions.
//
// Collective: the layers get a communicator of their own (see above), one for all of them.
std::vector<std::string> convert_sync_batch_norm(const Communicator& communicator,
                                                 torch::nn::Module& module);

// The batch norms that it can't replace: "block.norm (BatchNorm2d)". Local.
[[nodiscard]] std::vector<std::string> batch_norms_held_by_type(torch::nn::Module& module);

}  // namespace kolo
