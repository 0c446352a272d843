#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "kernels/convolution_kernel.h"
#include "kernels/onednn.h"
#include "kernels/products.h"
#include "kolo/base/checked.h"
#include "kolo/kernels/convolution.h"

// Uses of oneDNN besides convolutions.

namespace kolo {

namespace {

const char* name_of(dnnl::cpu_isa isa) {
  using dnnl::cpu_isa;
  for (const auto& [each, name] :
       {std::pair{cpu_isa::sse41, "SSE4.1"}, std::pair{cpu_isa::avx, "AVX"},
        std::pair{cpu_isa::avx2, "AVX2"}, std::pair{cpu_isa::avx2_vnni, "AVX2 VNNI"},
        std::pair{cpu_isa::avx512_core, "AVX-512"},
        std::pair{cpu_isa::avx512_core_vnni, "AVX-512 VNNI"},
        std::pair{cpu_isa::avx512_core_bf16, "AVX-512 BF16"},
        std::pair{cpu_isa::avx512_core_amx, "AVX-512 AMX"}})
    if (each == isa) return name;
  return "another one";
}

// An instruction set's number has the bits of all sets that it includes.
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

namespace kolo::onednn {

namespace {

using bfloat16_products::Pair;

constexpr std::int64_t lanes = bfloat16_products::lanes;

// A weight as [taps, inputs, outputs], and where its blocks go.
class Packing {
 public:
  Packing(const torch::Tensor& weight, const Layout& to, void* packed)
      : outputs_(weight.size(0)),
        inputs_(weight.size(1)),
        kernel_(weight.sizes().slice(2)),
        taps_(weight.numel() / (outputs_ * inputs_)),
        values_(weight.data_ptr<float>()),
        to_(to),
        packed_(static_cast<BFloat16*>(packed)) {}

  // Blocks of outputs, in each by pairs of inputs; for tiles inputs come in whole blocks of 16
  // pairs.
  [[nodiscard]] bool has_pairs_of_inputs() const {
    if (to_.inner.size() < 2 || outputs_ % lanes != 0 || inputs_ % 2 != 0) return false;
    const auto length = block_of_outputs(), pairs = pairs_of_a_block();
    const bool is_known = to_.inner.size() == 2 ||
                          (to_.inner.size() == 3 && to_.inner.front() == Layout::Block{lanes, 1});
    return is_known && to_.inner[to_.inner.size() - 2] == Layout::Block{length, 0} &&
           to_.inner.back() == Layout::Block{2, 1} && length % lanes == 0 &&
           to_.strides[1] == 2 * pairs * length;
  }

  void pack_pairs_of_inputs() const {
    const auto length = block_of_outputs(), blocks = divide_up(outputs_, length);
    const auto whole = pairs_of_a_block();
    const auto pairs = divide_up(inputs_ / 2, whole) * whole;
    at::parallel_for(0, taps_ * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        const auto tap = i / blocks, first = i % blocks * length;
        const auto columns = std::min(length, outputs_ - first);
        auto* const at = pair_at(i % blocks, 0, tap);
        if (columns < length || 2 * pairs > inputs_) std::fill_n(at, pairs * length, Pair{});
        bfloat16_products::pack(row(tap, 0) + first, outputs_, inputs_, columns, at, length);
      }
    });
  }

  // Blocks of 16 outputs, or of 32 for tiles, and 16 inputs, in each by pairs of outputs.
  [[nodiscard]] bool has_pairs_of_outputs() const {
    return to_.inner.size() == 3 && outputs_ % (2 * lanes) == 0 && inputs_ % lanes == 0 &&
           (to_.inner[0] == Layout::Block{lanes / 2, 0} ||
            to_.inner[0] == Layout::Block{lanes, 0}) &&
           to_.inner[1] == Layout::Block{lanes, 1} && to_.inner[2] == Layout::Block{2, 0};
  }

  void pack_pairs_of_outputs() const {
    constexpr auto both = 2 * lanes;
    const auto length = to_.inner[0].length, block = length * lanes;
    const auto blocks = outputs_ / both;
    at::parallel_for(0, taps_ * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      std::array<Pair, both / 2 * lanes> packed;
      for (auto i = begin; i < end; ++i) {
        const auto tap = i / blocks, output = i % blocks;
        for (std::int64_t input = 0; input < inputs_ / lanes; ++input) {
          bfloat16_products::pack_transposed(row(tap, input * lanes) + output * both, outputs_,
                                             both, lanes, packed.data());
          for (std::int64_t half = 0; half < lanes / length; ++half) {
            std::copy_n(packed.data() + half * block, block,
                        pair_at(output * (lanes / length) + half, input, tap));
          }
        }
      }
    });
  }

 private:
  [[nodiscard]] std::int64_t block_of_outputs() const {
    return to_.inner[to_.inner.size() - 2].length;
  }
  [[nodiscard]] std::int64_t pairs_of_a_block() const { return to_.inner.size() == 3 ? lanes : 1; }

  [[nodiscard]] const float* row(std::int64_t tap, std::int64_t input) const {
    return values_ + (tap * inputs_ + input) * outputs_;
  }

  // By the numbers of its blocks.
  [[nodiscard]] Pair* pair_at(std::int64_t output, std::int64_t input, std::int64_t tap) const {
    auto at = output * to_.strides[0] + input * to_.strides[1];
    for (std::size_t i = kernel_.size(); i-- > 0; tap /= kernel_[i])
      at += tap % kernel_[i] * to_.strides[i + 2];
    return static_cast<Pair*>(static_cast<void*>(packed_ + at));
  }

  std::int64_t outputs_, inputs_;
  at::IntArrayRef kernel_;
  std::int64_t taps_;
  const float* values_;
  const Layout& to_;
  BFloat16* packed_;
};

}  // namespace

bool pack_weight(const torch::Tensor& weight, const Layout& to, void* packed) {
  if (!bfloat16_products::are_supported() || !is_taps_first(weight)) return false;
  const Packing packing(weight, to, packed);
  if (packing.has_pairs_of_inputs()) {
    packing.pack_pairs_of_inputs();
    return true;
  }
  if (!packing.has_pairs_of_outputs()) return false;
  packing.pack_pairs_of_outputs();
  return true;
}

}  // namespace kolo::onednn
