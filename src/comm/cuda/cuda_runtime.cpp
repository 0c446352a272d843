#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "comm/cuda/check_cuda.h"
#include "comm/cuda/reduce_kernels.h"
#include "comm/watch/event_block.h"
#include "kolo/base/checked.h"
#include "kolo/comm/device.h"

namespace kolo {

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the next call does not get it
  throw Error(fmt::format("cuda: {} failed: {} ({})", what, cudaGetErrorString(status),
                          cudaGetErrorName(status)));
}

DeviceScope::DeviceScope(int device) {
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
  is_other_ = before_ != device;
  if (is_other_) check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

DeviceScope::~DeviceScope() {
  if (is_other_) (void)cudaSetDevice(before_);
}

namespace {

cudaStream_t stream_of(DeviceStream stream) {
  return static_cast<cudaStream_t>(stream);
}

class CudaEvent final : public DeviceEvent {
 public:
  CudaEvent(int device, DeviceStream stream, unsigned flags) : device_(device) {
    const DeviceScope scope(device);
    check_cuda(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
    const auto status = cudaEventRecord(event_, stream_of(stream));
    if (status == cudaSuccess) return;
    (void)cudaEventDestroy(event_);
    check_cuda(status, "cudaEventRecord");
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override { (void)cudaEventDestroy(event_); }  // given back when it has come

  [[nodiscard]] bool is_done() const override {
    const auto status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "work on the device");
    return true;
  }
  void wait() const override { check_cuda(cudaEventSynchronize(event_), "work on the device"); }
  // A null stream is that of this thread's device, which may be another.
  void hold_back(DeviceStream stream) const override {
    const DeviceScope scope(device_);
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
  [[nodiscard]] DeviceCount count() const override;
  [[nodiscard]] std::string hardware(int device) const override;
  [[nodiscard]] std::string pci_bus_id(int device) const override;
  [[nodiscard]] int device_of(const void* memory) const override;
  [[nodiscard]] int current_device() const override;
  void use(int device) const override { check_cuda(cudaSetDevice(device), "cudaSetDevice"); }
  [[nodiscard]] DeviceMemory memory(int device) const override;
  [[nodiscard]] std::shared_ptr<void> make_stream(int device) const override;
  [[nodiscard]] std::shared_ptr<DeviceEvent> record(int device,
                                                    DeviceStream stream) const override {
    return std::make_shared<CudaEvent>(device, stream, cudaEventDisableTiming);
  }
  [[nodiscard]] bool is_recorded(DeviceStream stream) const override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamIsCapturing(stream_of(stream), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }
  [[nodiscard]] std::shared_ptr<DeviceEvent> record_timed(int device,
                                                          DeviceStream stream) const override;
  void copy(int device, void* to, const void* from, std::size_t bytes,
            DeviceStream stream) const override;
  void reduce(int device, const DeviceReduction& reduction, DeviceStream stream) const override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate(int device, std::size_t bytes) const override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate_shared(int device, std::size_t bytes,
                                                           DeviceMemoryName& name) const override;
  [[nodiscard]] std::shared_ptr<std::byte> open_shared(int device,
                                                       const DeviceMemoryName& name) const override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) const override;
  [[nodiscard]] std::shared_ptr<std::byte> pin(std::shared_ptr<std::byte> memory,
                                               std::size_t bytes) const override;
};

DeviceCount CudaRuntime::count() const {
  int devices = 0;
  const auto status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return {devices, ""};
  (void)cudaGetLastError();
  return {0, cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status)};
}

// The identity that the driver gives it, which of parts of a device (MIG) is their own.
std::string CudaRuntime::hardware(int device) const {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {properties.uuid.bytes, sizeof(properties.uuid.bytes)};
}

std::string CudaRuntime::pci_bus_id(int device) const {
  std::array<char, 32> text{};
  check_cuda(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device),
             "cudaDeviceGetPCIBusId");
  return text.data();
}

int CudaRuntime::device_of(const void* memory) const {
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  if (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged)
    return attributes.device;
  throw Error(
      fmt::format("cuda: the memory at {} is the host's, but was said to be a device's", memory));
}

int CudaRuntime::current_device() const {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

DeviceMemory CudaRuntime::memory(int device) const {
  const DeviceScope scope(device);
  DeviceMemory memory;
  check_cuda(cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes), "cudaMemGetInfo");
  return memory;
}

std::shared_ptr<DeviceEvent> CudaRuntime::record_timed(int device, DeviceStream stream) const {
  const DeviceScope scope(device);
  if (is_recorded(stream)) return nullptr;
  return std::make_shared<CudaEvent>(device, stream, cudaEventDefault);
}

std::shared_ptr<void> CudaRuntime::make_stream(int device) const {
  const DeviceScope scope(device);
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
             "cudaStreamCreateWithPriority");
  return {stream, [](void* made) { (void)cudaStreamDestroy(static_cast<cudaStream_t>(made)); }};
}

void CudaRuntime::copy(int device, void* to, const void* from, std::size_t bytes,
                       DeviceStream stream) const {
  const DeviceScope scope(device);
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)),
             "cudaMemcpyAsync");
}

void CudaRuntime::reduce(int device, const DeviceReduction& reduction, DeviceStream stream) const {
  const DeviceScope scope(device);
  reduce_on_cuda(reduction, stream_of(stream));
}

std::shared_ptr<std::byte> CudaRuntime::allocate(int device, std::size_t bytes) const {
  const DeviceScope scope(device);
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
  return {static_cast<std::byte*>(memory), [](std::byte* made) { (void)cudaFree(made); }};
}

// What is in a DeviceMemoryName. A process may not open its own memory by CUDA's handle.
struct SharedMemoryOfCuda {
  std::int32_t process = own_process();
  std::uint64_t process_namespace = own_process_namespace();
  std::byte* address = nullptr;
  cudaIpcMemHandle_t handle{};

  [[nodiscard]] bool is_own() const {
    return process == own_process() && process_namespace == own_process_namespace();
  }
};
static_assert(sizeof(SharedMemoryOfCuda) <= sizeof(DeviceMemoryName));

// Memory of another device of this process, for kernels of this thread's.
void reach(int device, const std::byte* memory) {
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  if (attributes.device == device) return;
  const auto status = cudaDeviceEnablePeerAccess(attributes.device, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError();
  else
    check_cuda(status, "cudaDeviceEnablePeerAccess");
}

// CUDA cuts small pieces out of blocks of 2 MiB, and a handle is one of a whole block.
std::shared_ptr<std::byte> CudaRuntime::allocate_shared(int device, std::size_t bytes,
                                                        DeviceMemoryName& name) const {
  constexpr std::size_t block = std::size_t{2} << 20;
  auto memory = allocate(device, checked_add(bytes, block - 1) / block * block);
  SharedMemoryOfCuda shared;
  shared.address = memory.get();
  check_cuda(cudaIpcGetMemHandle(&shared.handle, memory.get()), "cudaIpcGetMemHandle");
  std::memcpy(name.bytes.data(), &shared, sizeof(shared));
  return memory;
}

std::shared_ptr<std::byte> CudaRuntime::open_shared(int device,
                                                    const DeviceMemoryName& name) const {
  const DeviceScope scope(device);
  SharedMemoryOfCuda shared;
  std::memcpy(&shared, name.bytes.data(), sizeof(shared));
  if (shared.is_own()) {
    reach(device, shared.address);
    return {shared.address, [](std::byte*) {}};
  }
  void* memory = nullptr;
  check_cuda(cudaIpcOpenMemHandle(&memory, shared.handle, cudaIpcMemLazyEnablePeerAccess),
             "cudaIpcOpenMemHandle");
  return {static_cast<std::byte*>(memory), [device](std::byte* opened) {
            try {
              const DeviceScope of_opening(device);
              (void)cudaIpcCloseMemHandle(opened);
            } catch (const Error&) {  // the process ends
            }
          }};
}

std::shared_ptr<std::byte> CudaRuntime::allocate_pinned(std::size_t bytes) const {
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  return {static_cast<std::byte*>(memory), [](std::byte* made) { (void)cudaFreeHost(made); }};
}

std::shared_ptr<std::byte> CudaRuntime::pin(std::shared_ptr<std::byte> memory,
                                            std::size_t bytes) const {
  check_cuda(cudaHostRegister(memory.get(), bytes, cudaHostRegisterPortable), "cudaHostRegister");
  auto* const place = memory.get();
  return {place,
          [memory = std::move(memory)](std::byte* pinned) { (void)cudaHostUnregister(pinned); }};
}

}  // namespace

std::shared_ptr<const DeviceRuntime> cuda_runtime() {
  return std::make_shared<CudaRuntime>();
}

}  // namespace kolo
