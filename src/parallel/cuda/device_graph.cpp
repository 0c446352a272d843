#include "parallel/device_graph.h"

#include <string>
#include <utility>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo::parallel {

namespace {

// LibTorch's messages go on with a stack trace.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(const torch::Device& device, const std::function<void()>& work) : device_(device) {
    const c10::cuda::CUDAGuard guard(device_);
    if (c10::cuda::getCurrentCUDAStream() == c10::cuda::getDefaultCUDAStream())
      throw Error("parallel: a CUDA graph can't be recorded on the default stream");
    c10::cuda::device_synchronize();
    // Autograd's threads and MPI's go on meanwhile: what they do is no fault of the recording.
    graph_.capture_begin(at::cuda::graph_pool_handle(), cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (const std::exception& error) {
      give_up();
      throw Error(fmt::format("parallel: a step can't be recorded as a CUDA graph: {}",
                              first_line(error.what())));
    }
    graph_.capture_end();
  }

  void replay() override {
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

std::unique_ptr<DeviceGraph> record_graph(const torch::Device& device, std::function<void()> work) {
  if (!device.is_cuda()) return make_repetition(std::move(work));
  return std::make_unique<CudaGraph>(device, work);
}

}  // namespace kolo::parallel
