// Kernels on the host: the threads of a block run one after the other, as fibers where they meet.
#include <ucontext.h>

#include <functional>
#include <memory>
#include <vector>

#include "machine.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{1, 1, 1};
constinit thread_local dim3 gridDim{1, 1, 1};

namespace fake_cuda {

namespace {

constexpr std::size_t stack_bytes = 32 << 10;

// A stack on which threads of the block run; one that waits in __syncthreads() keeps it.
struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(stack_bytes);
  uint3 thread{};
  bool waits = false;
};

// Tells the address sanitizer which stack comes next.
class Switch {
 public:
  Switch([[maybe_unused]] const void* stack, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_, stack, bytes);
#endif
  }
  void done() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_, nullptr, nullptr);
#endif
  }

 private:
  [[maybe_unused]] void* fake_ = nullptr;
};

class Block {
 public:
  void run(const Work& body) {
    body_ = &body;
    next_ = 0;
    // All start, each on a fiber that an earlier one has left or on a new one.
    std::size_t waiting = 0;
    while (next_ < threads()) {
      if (waiting == fibers_.size()) fibers_.push_back(std::make_unique<Fiber>());
      start(*fibers_[waiting]);
      if (fibers_[waiting]->waits) ++waiting;
    }
    // They go on together, until all have ended.
    for (bool is_any = waiting > 0; is_any;) {
      is_any = false;
      for (std::size_t i = 0; i < waiting; ++i) {
        Fiber& fiber = *fibers_[i];
        if (!fiber.waits) continue;
        fiber.waits = false;
        go(fiber);
        is_any = is_any || fiber.waits;
      }
    }
  }
  void meet() {
    Fiber& own = *running_;
    own.thread = threadIdx;
    own.waits = true;
    Switch back(host_stack_, host_bytes_);
    swapcontext(&own.context, &host_);
    back.done();
    threadIdx = own.thread;
  }

 private:
  static std::size_t threads() { return std::size_t{blockDim.x} * blockDim.y * blockDim.z; }
  static uint3 thread_of(std::size_t number) {
    const auto x = static_cast<unsigned>(number % blockDim.x);
    const auto y = static_cast<unsigned>(number / blockDim.x % blockDim.y);
    return {x, y, static_cast<unsigned>(number / blockDim.x / blockDim.y)};
  }
  void start(Fiber& fiber) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Block::begin, 0);
    go(fiber);
  }
  void go(Fiber& fiber) {
    running_ = &fiber;
    Switch there(fiber.stack.get(), stack_bytes);
    swapcontext(&host_, &fiber.context);
    there.done();
  }
  static void begin();
  void run_threads() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &host_stack_, &host_bytes_);
#endif
    Fiber& own = *running_;
    while (next_ < threads()) {
      threadIdx = thread_of(next_++);
      (*body_)();
    }
    own.waits = false;
    Switch back(host_stack_, host_bytes_);
    swapcontext(&own.context, &host_);
  }

  const Work* body_ = nullptr;
  std::size_t next_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* running_ = nullptr;
  ucontext_t host_{};
  const void* host_stack_ = nullptr;
  std::size_t host_bytes_ = 0;
};

Block& block_of_thread() {
  thread_local Block block;
  return block;
}

void Block::begin() {
  block_of_thread().run_threads();
}

}  // namespace

void run_grid(dim3 grid, dim3 block, const Work& body) {
  gridDim = grid;
  blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        block_of_thread().run(body);
      }
}

}  // namespace fake_cuda

void __syncthreads() {
  fake_cuda::block_of_thread().meet();
}
