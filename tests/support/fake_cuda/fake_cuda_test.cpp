// Fake CUDA does what CUDA does, and ends a process that does what CUDA leaves undefined.
#include <cstdlib>
#include <numeric>
#include <vector>

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <nccl.h>

namespace kolo::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

[[maybe_unused]] const bool has_two_devices = setenv("FAKE_GPUS", "2", 1) == 0;

void require(cudaError_t status) {
  ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status);
}

// `count` integers on a device, and as many in pinned memory of the host.
class Numbers {
 public:
  explicit Numbers(int count) : count_(count) {
    require(cudaMalloc(reinterpret_cast<void**>(&device), bytes()));
    require(cudaHostAlloc(reinterpret_cast<void**>(&host), bytes(), cudaHostAllocDefault));
    std::iota(host, host + count, 1);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  ~Numbers() {
    require(cudaFree(device));
    require(cudaFreeHost(host));
  }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(int); }
  void to_device(cudaStream_t stream) const {
    require(cudaMemcpyAsync(device, host, bytes(), cudaMemcpyHostToDevice, stream));
  }
  [[nodiscard]] std::vector<int> values(cudaStream_t stream) const {
    std::vector<int> values(static_cast<std::size_t>(count_));
    require(cudaMemcpyAsync(values.data(), device, bytes(), cudaMemcpyDeviceToHost, stream));
    require(cudaStreamSynchronize(stream));
    return values;
  }

  int *device = nullptr, *host = nullptr;

 private:
  int count_;
};

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

class FakeCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    require(cudaSetDevice(0));
  }
};
using FakeCudaDeathTest = FakeCuda;

TEST_F(FakeCuda, AnEventOrdersStreams) {
  const Numbers numbers(4);
  const auto first = new_stream(), second = new_stream();
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  numbers.to_device(first);
  require(cudaEventRecord(event, first));
  require(cudaStreamWaitEvent(second, event, 0));
  EXPECT_THAT(numbers.values(second), ElementsAre(1, 2, 3, 4));
  require(cudaEventDestroy(event));
}

TEST_F(FakeCudaDeathTest, WithoutAnEventTheyAreNotOrdered) {
  const auto race = [] {
    const Numbers numbers(4);
    numbers.to_device(new_stream());
    (void)numbers.values(new_stream());
  };
  EXPECT_DEATH(race(), "a copy reads 16 bytes of which a copy on another stream writes 16");
}

__global__ void reverse(int* values) {
  __shared__ int held[64];
  held[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

void launch_reverse(int* values, unsigned threads, cudaStream_t stream) {
  void* arguments[] = {&values};
  require(cudaLaunchKernel(reverse, 1, threads, arguments, 0, stream));
}

TEST_F(FakeCuda, ThreadsOfABlockMeet) {
  const Numbers numbers(64);
  const auto stream = new_stream();
  numbers.to_device(stream);
  launch_reverse(numbers.device, 64, stream);
  auto expected = std::vector<int>(64);
  std::iota(expected.rbegin(), expected.rend(), 1);
  EXPECT_EQ(numbers.values(stream), expected);
}

TEST_F(FakeCudaDeathTest, AKernelKeepsToItsMemory) {
  const auto overrun = [] {
    const Numbers numbers(63);
    launch_reverse(numbers.device, 64, nullptr);
    require(cudaDeviceSynchronize());
  };
  EXPECT_DEATH(overrun(), "heap-buffer-overflow");
}

TEST_F(FakeCudaDeathTest, AKernelIsLaunchedOnItsOwnDevice) {
  const auto stream = new_stream();
  const Numbers numbers(64);
  require(cudaSetDevice(1));
  EXPECT_DEATH(launch_reverse(numbers.device, 64, stream), "another device's stream");
}

TEST_F(FakeCuda, AGraphDoesItsWorkAgain) {
  const Numbers numbers(2);
  const auto stream = new_stream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t played = nullptr;
  require(cudaMemsetAsync(numbers.device, 0, numbers.bytes(), stream));
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  numbers.to_device(stream);
  require(cudaStreamEndCapture(stream, &graph));
  EXPECT_THAT(numbers.values(stream), Each(0)) << "nothing was done yet";
  require(cudaGraphInstantiate(&played, graph, 0));
  for (const int value : {5, 7}) {
    numbers.host[1] = value;
    require(cudaGraphLaunch(played, stream));
    EXPECT_THAT(numbers.values(stream), ElementsAre(1, value));
  }
  require(cudaGraphExecDestroy(played));
  require(cudaGraphDestroy(graph));
}

TEST_F(FakeCuda, CallsThatMayNotBeCapturedSpoilTheCapture) {
  const auto stream = new_stream();
  void* memory = nullptr;
  cudaGraph_t graph = nullptr;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  require(cudaMalloc(&memory, 8));
  require(cudaFree(memory));
}

TEST_F(FakeCudaDeathTest, NcclWantsItsDeviceAndBalancedGroups) {
  ncclUniqueId id;
  ncclComm_t group = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&group, 1, id, 0), ncclSuccess);
  const Numbers numbers(3);
  const auto add = [&] {
    (void)ncclAllReduce(numbers.device, numbers.device, 3, ncclInt32, ncclSum, group, nullptr);
  };
  EXPECT_DEATH((void)ncclGroupEnd(), "without its ncclGroupStart");
  require(cudaSetDevice(1));
  EXPECT_DEATH(add(), "another device is current");
  require(cudaSetDevice(0));
  add();
  ASSERT_EQ(ncclCommDestroy(group), ncclSuccess);
  EXPECT_DEATH(add(), "the communicator is gone");
}

}  // namespace
}  // namespace kolo::testing
