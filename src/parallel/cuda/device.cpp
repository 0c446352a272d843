#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/timeline.h"
#include "parallel/tensors/tensors.h"

namespace kolo::parallel {

namespace {

class CudaGraph {
 public:
  CudaGraph(const torch::Device& device, const std::function<void()>& work) : device_(device) {
    const c10::cuda::CUDAGuard guard(device_);
    if (c10::cuda::getCurrentCUDAStream() == c10::cuda::getDefaultCUDAStream())
      throw Error("parallel: a CUDA graph can't be recorded on the default stream");
    c10::cuda::device_synchronize();
    // Autograd's threads and MPI's go on meanwhile: what they do is no fault of the capture.
    graph_.capture_begin(at::cuda::graph_pool_handle(), cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (const std::exception& error) {
      give_up();
      throw Error(fmt::format("parallel: a step can't be recorded as a CUDA graph: {}",
                              first_line_of(error.what())));
    }
    graph_.capture_end();
  }

  void replay() {
    const c10::cuda::CUDAGuard guard(device_);
    graph_.replay();
  }

 private:
  // The first failure is the one that is told.
  void give_up() noexcept {
    try {
      graph_.capture_end();
    } catch (...) {  // NOLINT: see above
    }
  }

  torch::Device device_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::function<void()> capture_graph(const torch::Device& device, std::function<void()> work) {
  if (!device.is_cuda()) return work;
  return [graph = std::make_shared<CudaGraph>(device, work)] { graph->replay(); };
}

DeviceStream current_stream(const c10::Device& device) {
  return device.is_cuda() ? c10::cuda::getCurrentCUDAStream(device.index()).stream() : nullptr;
}

bool is_capturing(const c10::Device& device) {
  return device.is_cuda() &&
         c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

}  // namespace kolo::parallel

namespace kolo {

std::optional<DeviceMemoryUse> memory_use(const torch::Device& device) {
  if (!device.is_cuda()) return std::nullopt;
  const auto runtime = cuda_runtime();
  const int index = device.has_index() ? device.index() : runtime->current_device();
  const auto statistics =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<torch::DeviceIndex>(index));
  return DeviceMemoryUse{statistics.allocated_bytes[0].peak, statistics.reserved_bytes[0].peak,
                         runtime->memory(index)};
}

std::string device_name(const torch::Device& device) {
  if (!device.is_cuda()) return {};
  const int index = device.has_index() ? device.index() : cuda_runtime()->current_device();
  cudaDeviceProp properties{};
  if (const auto status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess) {
    throw Error(std::string("parallel: cudaGetDeviceProperties failed: ") +
                cudaGetErrorString(status));
  }
  return properties.name;
}

ProfilerRange::ProfilerRange(std::string_view name, std::int64_t number) {
  const std::string text(name);
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.c_str();
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = number;
  id_ = nvtxRangeStartEx(&attributes);
}

void ProfilerRange::end() noexcept {
  if (id_ != 0) nvtxRangeEnd(std::exchange(id_, 0));
}

}  // namespace kolo
