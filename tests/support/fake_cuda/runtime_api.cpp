// CUDA's functions over Machine: devices, memory, streams and events. Graphs: graph_api.cpp.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "include/cuda_runtime.h"
#include "machine.h"

using fake_cuda::Access;
using fake_cuda::current_device;
using fake_cuda::fail;
using fake_cuda::Machine;
using fake_cuda::MemoryKind;

namespace {

thread_local cudaError_t last_error = cudaSuccess;
constexpr int cuda_version = 13000;

Machine& machine() {
  return Machine::instance();
}

fake_cuda::Event& event_of(cudaEvent_t event) {
  return *reinterpret_cast<fake_cuda::Event*>(event);
}

// For functions that may not be called while a stream is captured.
#define REFUSE_IN_CAPTURE()                                \
  if (fake_cuda::invalidates_capture(__func__))            \
  return fail(cudaErrorStreamCaptureUnsupported, __func__, \
              "a stream is captured, and no longer validly")

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  auto& on = machine().stream_of(stream);
  const auto to_place = machine().place_of(to), from_place = machine().place_of(from);
  const auto ticket = machine().submit(on, "a copy", [=] { std::memmove(to, from, bytes); },
                                       {Access{static_cast<const char*>(from), bytes, false},
                                        Access{static_cast<const char*>(to), bytes, true}});
  // Memory that isn't pinned goes through CUDA's own, which the caller waits for.
  if (!on.capture && !(to_place.is_known && from_place.is_known)) on.wait(ticket);
  return cudaSuccess;
}

}  // namespace

cudaError_t fake_cuda::fail(cudaError_t status, const char* function, const std::string& why) {
  last_error = status;
  tell(std::string(function) + ": " + cudaGetErrorString(status) + ": " + why);
  return status;
}

cudaError_t fake_cuda::launch(dim3 grid, dim3 block, cudaStream_t stream,
                              std::function<void()> body) {
  machine().need_context("cudaLaunchKernel");
  auto& on = machine().stream_of(stream);
  if (on.device() != current_device()) violation("a kernel is launched on another device's stream");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
      block.x * block.y * block.z > 1024 || block.x * block.y * block.z == 0)
    return fail(cudaErrorInvalidConfiguration, "cudaLaunchKernel", "the grid or the block");
  (void)machine().submit(on, "a kernel",
                         [grid, block, body = std::move(body)] { run_grid(grid, block, body); });
  return cudaSuccess;
}

extern "C" {

// Devices and errors.

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().devices();
  return *count > 0 ? cudaSuccess : fail(cudaErrorNoDevice, __func__, "there is none");
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= machine().devices())
    return fail(cudaErrorInvalidDevice, __func__, std::to_string(device));
  current_device() = device;
  machine().need_context(__func__);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  machine().need_context(__func__);
  REFUSE_IN_CAPTURE();
  machine().wait_for_all(current_device());
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= machine().devices())
    return fail(cudaErrorInvalidDevice, __func__, std::to_string(device));
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Fake GPU");
  std::snprintf(properties->uuid.bytes, sizeof(properties->uuid.bytes), "fake-%d",
                machine().place(device));
  properties->pciBusID = 1 + machine().place(device);
  properties->major = 9;
  properties->minor = 0;
  properties->totalGlobalMem = machine().total_bytes();
  properties->multiProcessorCount = 132;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->regsPerBlock = 65536;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int /*device*/) {
  *value = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0",
                1 + machine().place(device));
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  machine().need_context(__func__);
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int /*from*/, int /*to*/) {
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = cuda_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = cuda_version;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return last_error;
}
const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    default:
      return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    default:
      thread_local char text[32];
      std::snprintf(text, sizeof(text), "error %d", static_cast<int>(status));
      return text;
  }
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*function*/) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}

// Memory.

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  machine().need_context(__func__);
  *free = machine().free_bytes(current_device());
  *total = machine().total_bytes();
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  machine().need_context(__func__);
  REFUSE_IN_CAPTURE();
  *memory = machine().allocate(bytes, current_device(), MemoryKind::device);
  return *memory != nullptr ? cudaSuccess
                            : fail(cudaErrorMemoryAllocation, __func__, std::to_string(bytes));
}
cudaError_t cudaFree(void* memory) {
  machine().need_context(__func__);
  if (memory == nullptr) return cudaSuccess;
  REFUSE_IN_CAPTURE();
  machine().release(memory, MemoryKind::device, __func__);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  machine().need_context(__func__);
  REFUSE_IN_CAPTURE();
  *memory = machine().allocate(bytes, current_device(), MemoryKind::pinned);
  return *memory != nullptr ? cudaSuccess
                            : fail(cudaErrorMemoryAllocation, __func__, std::to_string(bytes));
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, 0);
}
cudaError_t cudaFreeHost(void* memory) {
  REFUSE_IN_CAPTURE();
  if (memory != nullptr) machine().release(memory, MemoryKind::pinned, __func__);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned /*flags*/) {
  machine().need_context(__func__);
  REFUSE_IN_CAPTURE();
  if (fake_cuda::setting("FAKE_NO_PINNING", 0) != 0)
    return fail(cudaErrorMemoryAllocation, __func__, "FAKE_NO_PINNING");
  machine().pin(memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  machine().wait_for_all(-1);
  machine().unpin(memory);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const auto place = machine().place_of(memory);
  *attributes = {};
  attributes->device = place.device;
  attributes->type = !place.is_known                    ? cudaMemoryTypeUnregistered
                     : place.kind == MemoryKind::device ? cudaMemoryTypeDevice
                                                        : cudaMemoryTypeHost;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  machine().need_context(__func__);
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int /*device*/, const void* from, int /*source*/,
                                std::size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  REFUSE_IN_CAPTURE();
  const auto status = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return status == cudaSuccess ? cudaStreamSynchronize(nullptr) : status;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  machine().need_context(__func__);
  (void)machine().submit(machine().stream_of(stream), "a memset",
                         [=] { std::memset(to, value, bytes); },
                         {Access{static_cast<const char*>(to), bytes, true}});
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  REFUSE_IN_CAPTURE();
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

// Streams and events.

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/,
                                         int /*priority*/) {
  machine().need_context(__func__);
  *stream = reinterpret_cast<cudaStream_t>(&machine().make_stream(current_device()));
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  // Work on it is still done; its thread goes on to the end of the process.
  return stream == nullptr ? fail(cudaErrorInvalidResourceHandle, __func__, "null") : cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  machine().need_context(__func__);
  auto& on = machine().stream_of(stream);
  fake_cuda::Clock clock;
  {
    const std::lock_guard lock(machine().mutex);
    if (on.capture) {
      on.capture->invalid = "cudaStreamSynchronize of a stream that is captured";
      return fail(cudaErrorStreamCaptureUnsupported, __func__, on.capture->invalid);
    }
    clock = on.clock;
  }
  machine().wait(on, clock[&on], clock);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  REFUSE_IN_CAPTURE();
  auto& on = machine().stream_of(stream);
  return on.is_done(on.last()) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  machine().need_context(__func__);
  machine().hold_back(machine().stream_of(stream), event_of(event));
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  machine().need_context(__func__);
  auto made = std::make_unique<fake_cuda::Event>();
  made->device = current_device();
  made->is_timed = (flags & cudaEventDisableTiming) == 0;
  *event = reinterpret_cast<cudaEvent_t>(made.release());
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  machine().need_context(__func__);
  delete &event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned /*flags*/) {
  machine().need_context(__func__);
  auto& on = machine().stream_of(stream);
  if (event_of(event).device != on.device())
    return fail(cudaErrorInvalidResourceHandle, __func__, "event and stream are of two devices");
  machine().record(event_of(event), on);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  machine().need_context(__func__);
  auto& made = event_of(event);
  if (made.capture) return fail(cudaErrorCapturedEvent, __func__, "it was recorded in a capture");
  REFUSE_IN_CAPTURE();
  if (made.stream == nullptr) return cudaSuccess;
  if (!made.stream->is_done(made.ticket)) return cudaErrorNotReady;
  const std::lock_guard lock(machine().mutex);
  machine().note_done(made);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  machine().need_context(__func__);
  auto& made = event_of(event);
  if (made.capture) return fail(cudaErrorCapturedEvent, __func__, "it was recorded in a capture");
  REFUSE_IN_CAPTURE();
  if (made.stream != nullptr) machine().wait(*made.stream, made.ticket, made.clock);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  auto &begin = event_of(first), &end = event_of(second);
  if (!begin.is_timed || !end.is_timed || begin.stream == nullptr || end.stream == nullptr)
    return fail(cudaErrorInvalidResourceHandle, __func__, "an event without a time");
  if (!begin.stream->is_done(begin.ticket) || !end.stream->is_done(end.ticket))
    return cudaErrorNotReady;
  *milliseconds = static_cast<float>(1e3 * (*end.seconds - *begin.seconds));
  return cudaSuccess;
}

// LibTorch's own kernels: those that run are nowhere played, so their results would be missing.

void** __cudaRegisterFatBinary(void* /*image*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
void __cudaRegisterFunction(void** /*handle*/, const char* host, char* /*function*/,
                            const char* name, int, void*, void*, void*, void*, int*) {
  const std::lock_guard lock(machine().mutex);
  fake_cuda::kernel_names()[host] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*) {
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = *block = dim3(1, 1, 1);
  *shared = 0;
  *static_cast<void**>(stream) = nullptr;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, std::size_t, cudaStream_t) {
  const std::lock_guard lock(machine().mutex);
  const auto found = fake_cuda::kernel_names().find(function);
  fake_cuda::violation("a kernel of LibTorch has no stand-in: " +
                       (found == fake_cuda::kernel_names().end() ? "?" : found->second));
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared,
                          stream);
}

// The driver's functions that LibTorch asks for by name do nothing.

static int driver_success(...) {
  return 0;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* /*name*/, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = reinterpret_cast<void*>(&driver_success);
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// Called by the generated stand-ins of all other functions (make_stubs.py): those that only make,
// set up or ask may be called.
int fake_cuda_without_stand_in(const char* function) {
  const std::string name = function;
  for (const char* const harmless : {"Create", "Destroy", "Set", "Get", "Version", "Attribute",
                                     "Occupancy", "Profiler", "init", "Init", "UserObject"})
    if (name.find(harmless) != std::string::npos) {
      fake_cuda::tell("without a stand-in: " + name);
      return 0;
    }
  fake_cuda::violation("there is no stand-in for " + name);
}

}  // extern "C"
