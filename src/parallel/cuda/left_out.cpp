#include "kolo/base/error.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/timeline.h"
#include "parallel/kernels.h"
#include "parallel/tensors/device_stream.h"

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

void add_to_norm_on_device(double* /*total*/, std::span<const float> /*values*/,
                           double /*norm_type*/, std::span<std::byte> /*workspace*/,
                           void* /*stream*/) {
  fail("a norm");
}

void add_to_norm_on_device(double* /*total*/, std::span<const double> /*values*/,
                           double /*norm_type*/, std::span<std::byte> /*workspace*/,
                           void* /*stream*/) {
  fail("a norm");
}

void scale_on_device(std::span<float> /*values*/, const double* /*factor*/, void* /*stream*/) {
  fail("scaling");
}

void scale_on_device(std::span<double> /*values*/, const double* /*factor*/, void* /*stream*/) {
  fail("scaling");
}

void fill_on_device(std::span<float> /*values*/, float /*value*/, void* /*stream*/) {
  fail("filling");
}

void fill_on_device(std::span<double> /*values*/, double /*value*/, void* /*stream*/) {
  fail("filling");
}

void find_all_bits_on_device(std::span<const std::uint64_t> /*values*/, std::uint64_t /*mask*/,
                             std::int32_t* /*found*/, void* /*stream*/) {
  fail("a check for finite values");
}

void find_all_bits_on_device(std::span<const std::uint32_t> /*values*/, std::uint32_t /*mask*/,
                             std::int32_t* /*found*/, void* /*stream*/) {
  fail("a check for finite values");
}

void find_all_bits_on_device(std::span<const std::uint16_t> /*values*/, std::uint16_t /*mask*/,
                             std::int32_t* /*found*/, void* /*stream*/) {
  fail("a check for finite values");
}

void checksum_on_device(std::span<const std::byte> /*bytes*/, std::uint64_t* /*result*/,
                        std::span<std::byte> /*workspace*/, void* /*stream*/) {
  fail("a checksum");
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

namespace kolo::parallel {

DeviceStream current_stream(const c10::Device& /*device*/) {
  return nullptr;
}

bool is_recording(const c10::Device& /*device*/) {
  return false;
}

std::function<void()> record_graph(const torch::Device& /*device*/, std::function<void()> work) {
  return work;
}

}  // namespace kolo::parallel
