// What oneDNN does besides convolutions.
#include <fmt/format.h>

#include "kolo/kernels/convolution.h"
#include "kernels/matrices.h"
#include "kernels/onednn.h"

namespace kolo {

namespace {

const char* name_of(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2 VNNI";
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX-512 VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX-512 BF16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "AVX-512 AMX";
    default:
      return "another one";
  }
}

// An instruction set's number has the bits of those that it includes.
bool has(dnnl::cpu_isa instructions) {
  const auto wanted = static_cast<unsigned>(instructions);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

dnnl::memory memory_of(const torch::Tensor& tensor, const dnnl::engine& engine) {
  const dnnl::memory::desc layout(tensor.sizes().vec(), dnnl::memory::data_type::f32,
                                  tensor.strides().vec());
  return {layout, engine, tensor.data_ptr()};
}

}  // namespace

std::string onednn_description() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{}, instruction set {}", version.major, version.minor, version.patch,
                     name_of(dnnl::get_effective_cpu_isa()));
}

bool multiplies_bfloat16() {
  return has(dnnl::cpu_isa::avx512_core_bf16);
}

bool has_tiles_of_bfloat16() {
  return has(dnnl::cpu_isa::avx512_core_amx);
}

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Matrix& a,
              const Matrix& b, float* c) {
  const auto letter = [](const Matrix& matrix) { return matrix.transpose ? 'T' : 'N'; };
  const auto status = dnnl_sgemm(letter(a), letter(b), rows, columns, inner, 1, a.data, a.stride,
                                 b.data, b.stride, 0, c, columns);
  if (status != dnnl_success)
    throw Error(fmt::format("nn: oneDNN: a product of matrices: status {}", int{status}));
}

void reorder(const torch::Tensor& from, const torch::Tensor& to) {
  onednn::checked("a copy into another layout", [&] {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    auto source = memory_of(from, engine), target = memory_of(to, engine);
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
  });
}

}  // namespace kolo
