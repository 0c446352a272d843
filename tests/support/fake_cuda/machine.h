#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// A machine with CUDA devices that the host plays, below LibTorch's own CUDA build: memory is the
// host's, streams work late and on threads of their own, graphs are played again. What CUDA leaves
// undefined ends the process here (violation()).
//
//   FAKE_GPUS=2               devices of the machine; 1 by default. CUDA_VISIBLE_DEVICES chooses.
//   FAKE_MEMORY=1000000000    bytes of each device, for this process; 8 GiB by default
//   FAKE_LATE_MICROSECONDS=0  how long work lies on a stream that nobody waits for; 500 by default
//   FAKE_CONTEXTS=1           how many devices this process may make a context on; any by default
//   FAKE_COMMUNICATORS=1      how many of NCCL's it may have at a time; any by default
//   FAKE_NO_PINNING=1         memory of others can't be pinned
//   FAKE_VERBOSE=1            contexts, graphs and functions without a stand-in are told on stderr
namespace fake_cuda {

[[noreturn]] void violation(const std::string& what);
void tell(const std::string& what);  // where FAKE_VERBOSE is set
long setting(const char* name, long otherwise);

using Work = std::function<void()>;
using Ticket = std::uint64_t;  // of work on a stream, from 1 on

class Stream;
// Work known to have come before: of each stream, all up to a ticket.
using Clock = std::map<const Stream*, Ticket>;
void merge(Clock& clock, const Clock& more);

// Memory that work reads or writes.
struct Access {
  const char* begin;
  std::size_t bytes;
  bool is_write;
};

struct Graph {
  std::vector<Work> nodes;
};

// Work that is enqueued while a stream is captured becomes a graph.
struct Capture {
  unsigned long long id;
  cudaStreamCaptureMode mode;
  std::thread::id owner;
  Stream* origin;
  std::shared_ptr<Graph> graph;
  Clock last;           // of each stream that takes part, its last node
  std::string invalid;  // why, unless it is valid
  bool is_over = false;
};

class Stream {
 public:
  explicit Stream(int device) : device_(device) {}

  [[nodiscard]] int device() const { return device_; }
  // Does it later; in order.
  Ticket enqueue(Work work);
  [[nodiscard]] bool is_done(Ticket ticket);
  void wait(Ticket ticket);
  [[nodiscard]] Ticket last();

  // Members of the machine that its mutex guards:
  Clock clock;  // what its next work comes after
  struct Past {
    Ticket ticket;
    Access access;
    std::string name;
  };
  std::deque<Past> accesses;
  std::shared_ptr<Capture> capture;  // or null
  void begin(std::shared_ptr<Capture> made);
  void end();

 private:
  struct Item {
    Ticket ticket;
    std::chrono::steady_clock::time_point due;
    Work work;
  };
  void run();

  int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  Ticket last_ = 0, done_ = 0, wanted_ = 0;
  bool has_thread_ = false;
  Clock outside_;  // of what it captures
};

struct Event {
  int device;
  bool is_timed;
  Stream* stream = nullptr;  // where it was recorded last
  Ticket ticket = 0;
  Clock clock;
  std::shared_ptr<Capture> capture;
  std::shared_ptr<double> seconds = std::make_shared<double>(0);
};

enum class MemoryKind { device, pinned };

class Machine {
 public:
  // The one of this process, which is never destroyed: streams' threads go on to its end.
  static Machine& instance();

  std::recursive_mutex mutex;

  [[nodiscard]] static int devices();
  // The device's number among all of the machine.
  [[nodiscard]] static int place(int device);
  // A function needs a context on the current device, and makes one where there is none.
  void need_context(const char* function);
  [[nodiscard]] bool has_context(int device);

  // Null where `bytes` do not fit.
  void* allocate(std::size_t bytes, int device, MemoryKind kind);
  void release(void* memory, MemoryKind kind, const char* function);
  void pin(void* memory, std::size_t bytes);
  void unpin(void* memory);
  [[nodiscard]] std::size_t free_bytes(int device);
  [[nodiscard]] std::size_t total_bytes() const { return total_bytes_; }
  struct Place {
    bool is_known = false;
    MemoryKind kind = MemoryKind::device;
    int device = -1;
  };
  [[nodiscard]] Place place_of(const void* memory);

  Stream& make_stream(int device);
  [[nodiscard]] Stream& stream_of(cudaStream_t stream);
  // Enqueues on the stream, or in the graph as which it is captured.
  // `name`: of the work, for messages.
  Ticket submit(Stream& stream, const std::string& name, Work work,
                const std::vector<Access>& accesses = {});
  void record(Event& event, Stream& stream);
  void hold_back(Stream& stream, const Event& event);
  // The host waits until work of the stream is done, and knows it then.
  void wait(Stream& stream, Ticket ticket, const Clock& clock);
  void wait_for_all(int device);
  void note_done(const Event& event) { merge(host_clock_, event.clock); }

  std::vector<std::shared_ptr<Capture>> captures;  // that go on

 private:
  Machine();
  void check_order(Stream& stream, const std::string& name, const std::vector<Access>& accesses);
  void forget(const char* begin, std::size_t bytes);

  struct Block {
    std::size_t bytes;
    int device;
    MemoryKind kind;
    bool is_registered;  // memory of others that is pinned
  };
  std::size_t total_bytes_;
  std::map<int, std::string> contexts_;
  std::map<const char*, Block> blocks_;
  std::map<int, std::size_t> used_;
  std::map<int, std::unique_ptr<Stream>> default_streams_;
  std::vector<Stream*> streams_;
  Clock host_clock_;  // what the host has waited for
};

// The thread's own state.
[[nodiscard]] int& current_device();
[[nodiscard]] cudaStreamCaptureMode& capture_mode();
// Fails as CUDA does, with a line on stderr where FAKE_VERBOSE is set.
cudaError_t fail(cudaError_t status, const char* function, const std::string& why);
// Whether `function`, which mustn't be called while a stream is captured, invalidates a capture.
[[nodiscard]] bool invalidates_capture(const char* function);

// Names of LibTorch's kernels, by address.
[[nodiscard]] std::map<const void*, std::string>& kernel_names();

// Runs a kernel's body for each thread of a grid: by fibers, which meet in __syncthreads().
void run_grid(dim3 grid, dim3 block, const Work& body);

}  // namespace fake_cuda
