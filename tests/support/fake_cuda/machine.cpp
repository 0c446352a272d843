#include "machine.h"

#include <sanitizer/common_interface_defs.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

namespace fake_cuda {

namespace {

constexpr std::size_t alignment = 512;        // of allocations, as CUDA's
constexpr std::size_t most_accesses = 20000;  // of a stream that are remembered

std::chrono::microseconds lateness() {
  static const std::chrono::microseconds value{setting("FAKE_LATE_MICROSECONDS", 500)};
  return value;
}

std::vector<int> find_visible_devices() {
  const auto all = static_cast<int>(setting("FAKE_GPUS", 1));
  std::vector<int> visible;
  const char* const chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (chosen == nullptr) {
    for (int device = 0; device < all; ++device) visible.push_back(device);
    return visible;
  }
  std::istringstream names(chosen);
  for (std::string name; std::getline(names, name, ',');) {
    const int device = std::atoi(name.c_str());
    if (name.empty() || device < 0 || device >= all) break;  // CUDA shows those before it
    visible.push_back(device);
  }
  return visible;
}

// Read late, so that a test can set the environment.
const std::vector<int>& visible_devices() {
  static const auto devices = find_visible_devices();
  return devices;
}

bool overlap(const char* a, std::size_t a_bytes, const char* b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

void violation(const std::string& what) {
  std::fprintf(stderr, "fake CUDA: violation: %s\n", what.c_str());
  __sanitizer_print_stack_trace();
  std::abort();
}

void tell(const std::string& what) {
  static const bool is_verbose = setting("FAKE_VERBOSE", 0) != 0;
  if (is_verbose) std::fprintf(stderr, "fake CUDA: %s\n", what.c_str());
}

long setting(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

void merge(Clock& clock, const Clock& more) {
  for (const auto& [stream, ticket] : more) {
    auto& own = clock[stream];
    own = std::max(own, ticket);
  }
}

// Streams.

Ticket Stream::enqueue(Work work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({++last_, std::chrono::steady_clock::now() + lateness(), std::move(work)});
  if (!has_thread_) std::thread([this] { run(); }).detach();
  has_thread_ = true;
  changed_.notify_all();
  return last_;
}

bool Stream::is_done(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  return done_ >= ticket;
}

void Stream::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  wanted_ = std::max(wanted_, ticket);
  changed_.notify_all();
  changed_.wait(lock, [&] { return done_ >= ticket; });
}

Ticket Stream::last() {
  const std::lock_guard lock(mutex_);
  return last_;
}

void Stream::run() {
  current_device() = device_;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !queue_.empty(); });
    Item item = std::move(queue_.front());
    queue_.pop_front();
    changed_.wait_until(lock, item.due, [&] { return wanted_ >= item.ticket; });
    lock.unlock();
    item.work();
    item.work = nullptr;
    lock.lock();
    done_ = item.ticket;
    changed_.notify_all();
  }
}

void Stream::begin(std::shared_ptr<Capture> made) {
  capture = std::move(made);
  capture->last[this] = 0;
  outside_ = std::exchange(clock, {});
}

void Stream::end() {
  capture = nullptr;
  clock = std::exchange(outside_, {});
}

// Devices.

Machine& Machine::instance() {
  static auto* const machine = new Machine;
  return *machine;
}

Machine::Machine() : total_bytes_(static_cast<std::size_t>(setting("FAKE_MEMORY", 8L << 30))) {}

int Machine::devices() {
  return static_cast<int>(visible_devices().size());
}

int Machine::place(int device) {
  return visible_devices().at(static_cast<std::size_t>(device));
}

void Machine::need_context(const char* function) {
  const std::lock_guard lock(mutex);
  const int device = current_device();
  if (!contexts_.emplace(device, function).second) return;
  tell("context on device " + std::to_string(device) + ", made by " + function);
  const auto most = static_cast<std::size_t>(setting("FAKE_CONTEXTS", 1L << 20));
  if (contexts_.size() > most)
    violation(std::string(function) + " makes a context on device " + std::to_string(device) +
              ", and this process has one on another");
}

bool Machine::has_context(int device) {
  const std::lock_guard lock(mutex);
  return contexts_.contains(device);
}

// Memory.

void* Machine::allocate(std::size_t bytes, int device, MemoryKind kind) {
  const std::lock_guard lock(mutex);
  const std::size_t taken = (bytes + alignment - 1) / alignment * alignment + alignment;
  if (kind == MemoryKind::device) {
    if (used_[device] + taken > total_bytes_) return nullptr;
    used_[device] += taken;
  }
  void* made = nullptr;
  if (::posix_memalign(&made, alignment, bytes) != 0) return nullptr;
  auto* const memory = static_cast<char*>(made);
  std::memset(memory, 0xA5, bytes);  // large negative numbers, so that nobody takes it for zeros
  blocks_[memory] = {bytes, device, kind, false};
  return memory;
}

void Machine::release(void* memory, MemoryKind kind, const char* function) {
  wait_for_all(-1);  // as CUDA does
  const std::lock_guard lock(mutex);
  const auto found = blocks_.find(static_cast<char*>(memory));
  if (found == blocks_.end() || found->second.kind != kind || found->second.is_registered)
    violation(std::string(function) + " of memory that was not allocated so, or was freed");
  const Block block = found->second;
  const std::size_t taken = (block.bytes + alignment - 1) / alignment * alignment + alignment;
  if (kind == MemoryKind::device) used_[block.device] -= taken;
  forget(found->first, block.bytes);
  blocks_.erase(found);
  std::free(memory);  // whose uses the address sanitizer finds for a while
}

void Machine::pin(void* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (!blocks_.emplace(static_cast<char*>(memory), Block{bytes, -1, MemoryKind::pinned, true})
           .second)
    violation("cudaHostRegister of memory that is pinned");
}

void Machine::unpin(void* memory) {
  const std::lock_guard lock(mutex);
  const auto found = blocks_.find(static_cast<char*>(memory));
  if (found == blocks_.end() || !found->second.is_registered)
    violation("cudaHostUnregister of memory that is not registered");
  forget(found->first, found->second.bytes);
  blocks_.erase(found);
}

void Machine::forget(const char* begin, std::size_t bytes) {
  for (Stream* const stream : streams_)
    std::erase_if(stream->accesses, [&](const auto& access) {
      return overlap(access.access.begin, access.access.bytes, begin, bytes);
    });
}

std::size_t Machine::free_bytes(int device) {
  const std::lock_guard lock(mutex);
  return total_bytes_ - std::min(total_bytes_, used_[device]);
}

Machine::Place Machine::place_of(const void* memory) {
  const std::lock_guard lock(mutex);
  const auto* const address = static_cast<const char*>(memory);
  auto block = blocks_.upper_bound(address);
  if (block != blocks_.begin() &&
      address < std::prev(block)->first + std::prev(block)->second.bytes) {
    --block;
    return {true, block->second.kind, block->second.device};
  }
  return {};
}

// Work.

Stream& Machine::make_stream(int device) {
  const std::lock_guard lock(mutex);
  auto* const stream = new Stream(device);  // streams' threads go on to the end
  streams_.push_back(stream);
  return *stream;
}

Stream& Machine::stream_of(cudaStream_t stream) {
  if (stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread)
    return *reinterpret_cast<Stream*>(stream);
  const std::lock_guard lock(mutex);
  auto& own = default_streams_[current_device()];
  if (!own) {
    own = std::make_unique<Stream>(current_device());
    streams_.push_back(own.get());
  }
  return *own;
}

// Work on other streams that touches the same memory comes before, by an event or because the host
// has waited for it.
void Machine::check_order(Stream& stream, const std::string& name,
                          const std::vector<Access>& accesses) {
  for (Stream* const other : streams_) {
    if (other == &stream) continue;
    auto& theirs = other->accesses;
    while (!theirs.empty() && theirs.front().ticket <= host_clock_[other]) theirs.pop_front();
    const Ticket known = std::max(host_clock_[other], stream.clock[other]);
    for (const auto& [ticket, access, their_name] : theirs) {
      if (ticket <= known) continue;
      for (const Access& own : accesses) {
        if (!(own.is_write || access.is_write) ||
            !overlap(own.begin, own.bytes, access.begin, access.bytes))
          continue;
        violation(name + (own.is_write ? " writes " : " reads ") + std::to_string(own.bytes) +
                  " bytes of which " + their_name + " on another stream " +
                  (access.is_write ? "writes " : "reads ") + std::to_string(access.bytes) +
                  ", and no event orders them");
      }
    }
  }
}

Ticket Machine::submit(Stream& stream, const std::string& name, Work work,
                       const std::vector<Access>& accesses) {
  const std::lock_guard lock(mutex);
  if (stream.capture) {
    stream.capture->graph->nodes.push_back(std::move(work));
    const Ticket node = stream.capture->graph->nodes.size();
    stream.capture->last[&stream] = node;
    stream.clock[&stream] = node;
    return node;
  }
  check_order(stream, name, accesses);
  const Ticket ticket = stream.enqueue(std::move(work));
  stream.clock[&stream] = ticket;
  for (const Access& access : accesses) stream.accesses.push_back({ticket, access, name});
  while (stream.accesses.size() > most_accesses) stream.accesses.pop_front();
  return ticket;
}

void Machine::record(Event& event, Stream& stream) {
  const std::lock_guard lock(mutex);
  event.stream = &stream;
  event.capture = stream.capture;
  event.clock = stream.clock;
  if (stream.capture) return;
  event.seconds = std::make_shared<double>(0);
  event.ticket = submit(stream, "an event", [seconds = event.seconds] {
    *seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  });
  event.clock[&stream] = event.ticket;
}

void Machine::hold_back(Stream& stream, const Event& event) {
  const std::lock_guard lock(mutex);
  if (event.stream == nullptr) return;
  if (event.capture) {
    if (event.capture->is_over)
      violation("a stream waits for an event of a capture that has ended");
    if (!stream.capture) {
      stream.begin(event.capture);
    }
    return merge(stream.clock, event.clock);
  }
  if (stream.capture) {
    stream.capture->invalid = "a stream that is captured waits for an event from outside";
    return;
  }
  merge(stream.clock, event.clock);
  if (event.stream == &stream) return;
  (void)submit(stream, "a wait",
               [other = event.stream, ticket = event.ticket] { other->wait(ticket); });
}

void Machine::wait(Stream& stream, Ticket ticket, const Clock& clock) {
  stream.wait(ticket);
  const std::lock_guard lock(mutex);
  merge(host_clock_, clock);
}

void Machine::wait_for_all(int device) {
  std::vector<Stream*> streams;
  {
    const std::lock_guard lock(mutex);
    streams = streams_;
  }
  for (Stream* const stream : streams) {
    if (device >= 0 && stream->device() != device) continue;
    Clock clock;
    {
      const std::lock_guard lock(mutex);
      if (stream->capture) continue;
      clock = stream->clock;
      clock[stream] = stream->last();
    }
    wait(*stream, clock[stream], clock);
  }
}

// The thread's own state.

int& current_device() {
  thread_local int device = 0;
  return device;
}

cudaStreamCaptureMode& capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

std::map<const void*, std::string>& kernel_names() {
  static auto* const names = new std::map<const void*, std::string>;
  return *names;
}

bool invalidates_capture(const char* function) {
  const std::lock_guard lock(Machine::instance().mutex);
  if (capture_mode() == cudaStreamCaptureModeRelaxed) return false;
  for (const auto& capture : Machine::instance().captures) {
    const bool is_own = capture->owner == std::this_thread::get_id() &&
                        capture->mode != cudaStreamCaptureModeRelaxed;
    const bool is_others = capture_mode() == cudaStreamCaptureModeGlobal &&
                           capture->mode == cudaStreamCaptureModeGlobal;
    if (!is_own && !is_others) continue;
    capture->invalid = std::string(function) + " was called meanwhile";
    return true;
  }
  return false;
}

}  // namespace fake_cuda

// The C library's own, in the place of which the address sanitizer's allocator works, can't be
// called by several threads.
extern "C" int malloc_trim(std::size_t /*kept*/) {
  return 0;
}
