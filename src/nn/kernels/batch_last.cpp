#include "nn/kernels/batch_last.h"

namespace kolo {

bool has_batch_last(const torch::Tensor& images) {
  return images.permute({1, 2, 3, 0}).is_contiguous();
}

torch::Tensor with_batch_last(const torch::Tensor& images) {
  return has_batch_last(images) ? images
                                : images.permute({1, 2, 3, 0}).contiguous().permute({3, 0, 1, 2});
}

torch::Tensor empty_with_batch_last(at::IntArrayRef shape, const torch::TensorOptions& options) {
  return torch::empty({shape[1], shape[2], shape[3], shape[0]}, options).permute({3, 0, 1, 2});
}

}  // namespace kolo
