#include "kolo/base/error.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/timeline.h"
#include "parallel/kernels.h"
#include "parallel/tensors/tensors.h"

// In place of flat_kernels.cu, where kolo is built without CUDA.
namespace kolo::parallel {

namespace {

[[noreturn]] void fail(const char* pass) {
  throw Error(std::string("parallel: ") + pass +
              " on a CUDA device was asked for, but kolo was built without CUDA; build it with -D "
              "KOLO_CUDA=ON, nvcc and a LibTorch with CUDA, or keep the tensors in the host's "
              "memory");
}

}  // namespace

template <typename T>
void add_squares_on_device(double*, std::span<const T>, std::span<std::byte>, void*) {
  fail("a norm");
}

template <typename Word>
void find_all_bits_on_device(std::span<const Word>, Word, std::int32_t*, void*) {
  fail("a check for finite values");
}

KOLO_INSTANTIATE_FLAT_KERNELS

DeviceStream current_stream(const c10::Device& /*device*/) {
  return nullptr;
}

bool is_capturing(const c10::Device& /*device*/) {
  return false;
}

std::function<void()> capture_graph(const torch::Device& /*device*/, std::function<void()> work) {
  return work;
}

}  // namespace kolo::parallel

namespace kolo {

std::optional<DeviceMemoryUse> memory_use(const torch::Device& /*device*/) {
  return std::nullopt;
}

std::string device_name(const torch::Device& device) {
  return device.is_cpu() ? std::string() : device.str();
}

ProfilerRange::ProfilerRange(std::string_view /*name*/, std::int64_t /*number*/) {}

void ProfilerRange::end() noexcept {
  id_ = 0;
}

}  // namespace kolo
