#include "kolo/parallel/spatial_layers.h"
#include "kolo/parallel/spatial_step.h"

namespace kolo {

SpatialBatchNormImpl::SpatialBatchNormImpl(const DeviceMesh& mesh,
                                           const torch::nn::BatchNormOptions& options_,
                                           NormGroup group)
    : SyncBatchNormImpl(group == NormGroup::spatial ? mesh.spatial() : mesh.replicas(), options_),
      mesh_(mesh) {}

SpatialPart SpatialBatchNormImpl::forward(const SpatialPart& input) {
  return {forward_copies(input.tensor, copies_of(mesh_, input)), input.axes};
}

}  // namespace kolo
