#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "cli/doctor/checks.h"

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

// "AVX512" etc., the kernels that LibTorch itself uses, out of at::show_config()'s long text.
std::string cpu_capability() {
  const auto text = at::show_config();
  constexpr std::string_view words = "CPU capability usage: ";
  const auto start = text.find(words);
  if (start == std::string::npos) return "unknown";
  const auto end = text.find('\n', start);
  return text.substr(start + words.size(), end - start - words.size());
}

}  // namespace

Finding check_blas(const BlasLibrary& library, const VectorUnits& units,
                   const std::string& core_before) {
  Finding finding{.name = "BLAS"};
  if (!library.is_openblas()) {
    finding.status = FindingStatus::warning;
    finding.text = fmt::format("{}: not OpenBLAS", library.path.empty() ? "none" : library.path);
    finding.remedy =
        "if this is the reference BLAS, it is many times slower: apt install libopenblas0-pthread";
    return finding;
  }
  finding.text = fmt::format("{} with kernels for {} ({})",
                             library.version.substr(0, library.version.find(' ', 9)), library.core,
                             library.path);
  if (const auto better = better_core(library.core, units)) {
    finding.status = FindingStatus::warning;
    finding.remedy = fmt::format(
        "it takes this processor for an older one; export OPENBLAS_CORETYPE={}", *better);
  } else if (!core_before.empty()) {
    finding.text += fmt::format("; by itself it chose {}, kolo set OPENBLAS_CORETYPE={}",
                                core_before, library.core);
  }
  return finding;
}

Finding check_libtorch() {
  return {.name = "LibTorch",
          .text = fmt::format("{}, kernels for {}, {} threads", TORCH_VERSION, cpu_capability(),
                              at::get_num_threads())};
}

Finding check_onednn() {
  const dnnl_version_t& version = *dnnl_version();
  return {.name = "oneDNN",
          .text = fmt::format("{}.{}.{}, instruction set {}", version.major, version.minor,
                              version.patch, name_of(dnnl::get_effective_cpu_isa()))};
}

Finding check_kernels(const std::string& in_2d, const std::string& in_3d) {
  const auto path = [](const std::string& implementation) {
    return implementation.empty() ? "LibTorch's own operators"
                                  : fmt::format("oneDNN, {}", implementation);
  };
  Finding finding{
      .name = "kernels",
      .text = fmt::format("convolutions in 2-D by {}; in 3-D by {}", path(in_2d), path(in_3d))};
  if (in_2d.empty() || in_3d.empty()) {
    finding.status = FindingStatus::warning;
    finding.remedy =
        "oneDNN has nothing vectorised for this processor; results are the same, training is "
        "slower than docs/performance.md says";
  }
  return finding;
}

}  // namespace kolo
