#include <array>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "comm/cuda/check_cuda.h"
#include "kolo/comm/device.h"

namespace kolo {

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the next call does not get it
  throw Error(fmt::format("cuda: {} failed: {} ({})", what, cudaGetErrorString(status),
                          cudaGetErrorName(status)));
}

void use_device(int device) {
  int current = 0;
  check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  if (current != device) check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

namespace {

// For destructors, which may run in any thread.
void use_device_if_possible(int device) noexcept {
  int current = 0;
  if (cudaGetDevice(&current) == cudaSuccess && current != device) (void)cudaSetDevice(device);
}

cudaStream_t stream_of(DeviceStream stream) {
  return static_cast<cudaStream_t>(stream);
}

class CudaEvent final : public DeviceEvent {
 public:
  CudaEvent(int device, DeviceStream stream, unsigned flags) : device_(device) {
    use_device(device);
    check_cuda(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
    const auto status = cudaEventRecord(event_, stream_of(stream));
    if (status == cudaSuccess) return;
    (void)cudaEventDestroy(event_);
    check_cuda(status, "cudaEventRecord");
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override {
    use_device_if_possible(device_);
    (void)cudaEventDestroy(event_);  // frees it when it has come
  }

  [[nodiscard]] bool is_done() const override {
    use_device(device_);
    const auto status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "work on the device");
    return true;
  }
  void wait() const override {
    use_device(device_);
    check_cuda(cudaEventSynchronize(event_), "work on the device");
  }
  void hold_back(DeviceStream stream) const override {
    use_device(device_);
    check_cuda(cudaStreamWaitEvent(stream_of(stream), event_, 0), "cudaStreamWaitEvent");
  }
  [[nodiscard]] double seconds_since(const DeviceEvent& earlier) const override {
    const auto& first = dynamic_cast<const CudaEvent&>(earlier);
    first.wait();
    wait();
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, first.event_, event_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

class CudaRuntime final : public DeviceRuntime {
 public:
  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] DeviceCount count() const override {
    int devices = 0;
    const auto status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return {devices, ""};
    (void)cudaGetLastError();
    return {0, cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status)};
  }
  // The identity that the driver gives it: parts of a device (MIG) have their own.
  [[nodiscard]] std::string hardware(int device) const override {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    return {properties.uuid.bytes, sizeof(properties.uuid.bytes)};
  }
  [[nodiscard]] std::string pci_bus_id(int device) const override {
    std::array<char, 32> text{};
    check_cuda(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device),
               "cudaDeviceGetPCIBusId");
    return text.data();
  }
  [[nodiscard]] int device_of(const void* memory) const override {
    cudaPointerAttributes attributes{};
    check_cuda(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
    if (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged)
      return attributes.device;
    throw Error(
        fmt::format("cuda: the memory at {} is the host's, but was said to be a device's", memory));
  }
  [[nodiscard]] int current_device() const override {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    return device;
  }
  void use(int device) const override { check_cuda(cudaSetDevice(device), "cudaSetDevice"); }
  [[nodiscard]] DeviceMemory memory(int device) const override {
    use_device(device);
    DeviceMemory memory;
    check_cuda(cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes), "cudaMemGetInfo");
    return memory;
  }
  [[nodiscard]] std::shared_ptr<void> make_stream(int device) const override {
    use_device(device);
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
               "cudaDeviceGetStreamPriorityRange");
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
               "cudaStreamCreateWithPriority");
    return {stream, [device](void* made) {
              use_device_if_possible(device);
              (void)cudaStreamDestroy(static_cast<cudaStream_t>(made));
            }};
  }
  [[nodiscard]] std::shared_ptr<DeviceEvent> record(int device,
                                                    DeviceStream stream) const override {
    return std::make_shared<CudaEvent>(device, stream, cudaEventDisableTiming);
  }
  [[nodiscard]] bool is_captured(DeviceStream stream) const override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamIsCapturing(stream_of(stream), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }
  [[nodiscard]] std::shared_ptr<DeviceEvent> record_timed(int device,
                                                          DeviceStream stream) const override {
    use_device(device);
    if (is_captured(stream)) return nullptr;
    return std::make_shared<CudaEvent>(device, stream, cudaEventDefault);
  }
  void copy(int device, void* to, const void* from, std::size_t bytes,
            DeviceStream stream) const override {
    use_device(device);
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)),
               "cudaMemcpyAsync");
  }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(int device, std::size_t bytes) const override {
    use_device(device);
    void* memory = nullptr;
    const auto status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      const auto [free, total] = this->memory(device);
      throw Error(
          fmt::format("cuda: device {} has no {} bytes left: {} of {} are free; use a "
                      "smaller batch, or end other programs on it",
                      device, bytes, free, total));
    }
    check_cuda(status, "cudaMalloc");
    return {static_cast<std::byte*>(memory), [device](std::byte* made) {
              use_device_if_possible(device);
              (void)cudaFree(made);
            }};
  }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(int device,
                                                           std::size_t bytes) const override {
    use_device(device);
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc");
    return {static_cast<std::byte*>(memory), [device](std::byte* made) {
              use_device_if_possible(device);
              (void)cudaFreeHost(made);
            }};
  }
  [[nodiscard]] std::shared_ptr<std::byte> pin(int device, std::shared_ptr<std::byte> memory,
                                               std::size_t bytes) const override {
    use_device(device);
    check_cuda(cudaHostRegister(memory.get(), bytes, cudaHostRegisterPortable), "cudaHostRegister");
    auto* const data = memory.get();
    return {data, [device, memory = std::move(memory)](std::byte* pinned) {
              use_device_if_possible(device);
              (void)cudaHostUnregister(pinned);
            }};
  }
};

}  // namespace

std::shared_ptr<const DeviceRuntime> cuda_runtime() {
  return std::make_shared<CudaRuntime>();
}

}  // namespace kolo
