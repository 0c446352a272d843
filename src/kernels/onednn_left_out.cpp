// Instead of direct_convolution.cpp and onednn.cpp, where kolo has no oneDNN of its own:
// LibTorch computes.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include "kernels/convolution_kernel.h"
#include "kolo/kernels/convolution.h"

namespace kolo {

namespace {

torch::Tensor tensor_of(const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  const std::array strides = matrix.transpose ? std::array<std::int64_t, 2>{1, matrix.stride}
                                              : std::array<std::int64_t, 2>{matrix.stride, 1};
  return torch::from_blob(const_cast<float*>(matrix.data), {rows, columns}, strides);
}

}  // namespace

std::string onednn_description() {
  return "";
}

std::string convolution_implementation(std::int64_t /*dimensions*/) {
  return "";
}

bool has_tiles_of_bfloat16() {
  return false;
}

bool multiplies_bfloat16() {
  return false;
}

std::unique_ptr<ConvolutionKernel> make_direct_convolution(
    const ConvolutionGeometry& /*geometry*/) {
  return nullptr;
}

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Matrix& a,
              const Matrix& b, float* c) {
  auto result = tensor_of({c, columns}, rows, columns);
  at::mm_out(result, tensor_of(a, rows, inner), tensor_of(b, inner, columns));
}

void reorder(const torch::Tensor& from, const torch::Tensor& to) {
  to.copy_(from);
}

}  // namespace kolo
