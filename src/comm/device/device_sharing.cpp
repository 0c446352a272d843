#include "comm/device/device_sharing.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "kolo/base/error.h"

namespace kolo {

std::shared_ptr<std::byte> PinnedMemories::take(const DeviceRuntime& runtime, int device,
                                                std::size_t bytes) {
  constexpr std::size_t least = 4096;
  const std::size_t size = std::bit_ceil(std::max(bytes, least));
  Piece piece;
  {
    const std::lock_guard lock(free_->mutex);
    auto& pieces = free_->pieces;
    const auto found = std::ranges::find(pieces, size, &Piece::bytes);
    if (found != pieces.end()) {
      piece = std::move(*found);
      pieces.erase(found);
    }
  }
  if (!piece.memory) piece = {size, runtime.allocate_pinned(device, size)};
  std::byte* const memory = piece.memory.get();
  return {memory, [free = free_, piece](std::byte*) mutable {
            const std::lock_guard lock(free->mutex);
            free->pieces.push_back(std::move(piece));
          }};
}

namespace {

constexpr std::chrono::milliseconds interval{1};

}  // namespace

// State of the thread, which owns it together with the poller.
struct CompletionPoller::State {
  struct Pending {
    std::shared_ptr<const DeviceEvent> ready, done;
    std::function<void()> started;
    std::function<void(bool)> finished;
    bool has_started = false;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Pending> pending;
  bool is_stopping = false;

  void loop();
  [[nodiscard]] bool finish_first(std::unique_lock<std::mutex>& lock);
};

CompletionPoller::CompletionPoller() : state_(std::make_shared<State>()) {}

void CompletionPoller::stop() {
  std::deque<State::Pending> forgotten;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
    forgotten.swap(state_->pending);
  }
  state_->changed.notify_all();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void CompletionPoller::add(std::shared_ptr<const DeviceEvent> ready,
                           std::shared_ptr<const DeviceEvent> done, std::function<void()> started,
                           std::function<void(bool)> finished) {
  const std::lock_guard lock(state_->mutex);
  if (state_->is_stopping) return;
  state_->pending.push_back(
      {std::move(ready), std::move(done), std::move(started), std::move(finished)});
  if (!thread_.joinable()) thread_ = std::thread([state = state_] { state->loop(); });
  state_->changed.notify_all();
}

void CompletionPoller::State::loop() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return is_stopping || !pending.empty(); });
    if (is_stopping) return;
    if (!finish_first(lock)) changed.wait_for(lock, interval, [&] { return is_stopping; });
  }
}

// Lets go of the lock while it asks the device, which may take long when it has failed, and while
// the collective's owner goes, which may end the poller.
bool CompletionPoller::State::finish_first(std::unique_lock<std::mutex>& lock) {
  const auto ready = pending.front().ready, done = pending.front().done;
  lock.unlock();
  bool is_ready = true, is_done = true, has_failed = false;
  try {
    is_done = done->is_done();
    is_ready = is_done || !ready || ready->is_done();
  } catch (const std::exception&) {
    is_done = has_failed = true;
  }
  lock.lock();
  if (is_stopping) return true;
  if (is_ready && !std::exchange(pending.front().has_started, true)) pending.front().started();
  if (!is_done) return false;
  auto first = std::move(pending.front());
  pending.pop_front();
  first.finished(has_failed);
  lock.unlock();
  first = {};
  lock.lock();
  return true;
}

const DeviceRuntime& DeviceSharing::runtime() const {
  if (options_.runtime) return *options_.runtime;
  throw Error(
      "comm: a collective was given a device's memory, but kolo was built without CUDA; build it "
      "with KOLO_CUDA=ON on a LibTorch that has CUDA, or copy to the host's memory");
}

std::shared_ptr<void> DeviceSharing::stream(int device, bool is_for_transfers) {
  const std::lock_guard lock(mutex_);
  auto& stream = streams_[{device, is_for_transfers}];
  if (!stream) stream = runtime().make_stream(device);
  return stream;
}

void DeviceSharing::note_transport(const std::string& transport) {
  const std::lock_guard lock(mutex_);
  transport_ = transport;
}

std::string DeviceSharing::transport() const {
  const std::lock_guard lock(mutex_);
  return transport_;
}

TransferStaging::TransferStaging(CollectiveCall& call, DeviceSharing& sharing)
    : runtime_(sharing.runtime()),
      order_(call.order),
      stream_(sharing.stream(order_->device, /*is_for_transfers=*/true)),
      bytes_(call.collective == Collective::send ? call.input.bytes() : call.output.bytes()),
      memory_(sharing.pinned().take(runtime_, order_->device, bytes_)),
      destination_(call.output.data) {
  if (call.collective == Collective::send) {
    order_->ready->hold_back(stream_.get());
    runtime_.copy(order_->device, memory_.get(), call.input.data, bytes_, stream_.get());
    copied_ = runtime_.record(order_->device, stream_.get());
    call.input = ConstBuffer(memory_.get(), call.count, call.type);
  } else {
    call.output = Buffer(memory_.get(), call.count, call.type);
  }
}

TransferStaging::~TransferStaging() {
  if (!copied_) return;
  try {
    copied_->wait();        // the memory goes to somebody else
  } catch (const Error&) {  // a device that has failed copies nothing any more
  }
}

void TransferStaging::take_up() {
  order_->ready->hold_back(stream_.get());
  runtime_.copy(order_->device, destination_, memory_.get(), bytes_, stream_.get());
  copied_ = runtime_.record(order_->device, stream_.get());
  order_->done = copied_;
}

bool TransferStaging::is_over() const {
  try {
    return is_there();
  } catch (const Error&) {
    return true;
  }
}

}  // namespace kolo
