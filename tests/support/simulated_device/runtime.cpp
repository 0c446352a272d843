#include "support/simulated_device/runtime.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kolo/base/error.h"
#include "support/gpu.h"
#include "support/simulated_device/memory.h"

namespace kolo::testing::simulated {

namespace {

// Thread that does pieces of work in their order, each a little later.
class Stream {
 public:
  Stream() : thread_([this] { loop(); }) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {  // after all that it was given
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_all();
  }

 private:
  void loop() {
    std::minstd_rand random(std::random_device{}());
    std::uniform_int_distribution<int> microseconds(0, 50);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_stopping_ || !work_.empty(); });
      if (work_.empty()) return;
      const auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool is_stopping_ = false;
  std::thread thread_;
};

// Event of a stream; of the default stream it is complete, because the test's thread does its work.
class Event final : public DeviceEvent {
 public:
  explicit Event(DeviceStream stream) {
    if (stream == nullptr)
      state_->complete();
    else
      static_cast<Stream*>(stream)->add([state = state_] { state->complete(); });
  }

  [[nodiscard]] bool is_done() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->is_done;
  }
  void wait() const override { state_->wait(); }
  void hold_back(DeviceStream stream) const override {
    if (stream == nullptr)
      state_->wait();
    else
      static_cast<Stream*>(stream)->add([state = state_] { state->wait(); });
  }
  [[nodiscard]] double seconds_since(const DeviceEvent& earlier) const override {
    const auto& first = dynamic_cast<const Event&>(earlier);
    first.wait();
    wait();
    return std::chrono::duration<double>(state_->time - first.state_->time).count();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    std::chrono::steady_clock::time_point time;

    void complete() {
      {
        const std::lock_guard lock(mutex);
        is_done = true;
        time = std::chrono::steady_clock::now();
      }
      changed.notify_all();
    }
    void wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_done; });
    }
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Address by which the device reaches the memory.
void* seen_by_device(const void* memory) {
  return device_of(memory) < 0 ? const_cast<void*>(memory) : host_view(memory);
}

class Runtime : public DeviceRuntime {
 public:
  [[nodiscard]] std::string_view name() const override { return "simulated"; }
  [[nodiscard]] DeviceCount count() const override { return {kDevices, ""}; }
  [[nodiscard]] std::string hardware(int device) const override { return std::to_string(device); }
  [[nodiscard]] int device_of(const void* memory) const override {
    const int device = simulated::device_of(memory);
    if (device < 0) throw Error("simulated: memory of the host was said to be a device's");
    return device;
  }
  [[nodiscard]] int current_device() const override { return 0; }
  void use(int /*device*/) const override {}
  [[nodiscard]] std::shared_ptr<void> make_stream(int /*device*/) const override {
    return std::make_shared<Stream>();
  }
  [[nodiscard]] std::shared_ptr<DeviceEvent> record(int /*device*/,
                                                    DeviceStream stream) const override {
    return std::make_shared<Event>(stream);
  }
  [[nodiscard]] std::shared_ptr<DeviceEvent> record_timed(int device,
                                                          DeviceStream stream) const override {
    return record(device, stream);
  }
  [[nodiscard]] DeviceMemory memory(int /*device*/) const override {
    return {std::size_t{3} << 30, std::size_t{4} << 30};
  }
  void copy(int /*device*/, void* to, const void* from, std::size_t bytes,
            DeviceStream stream) const override {
    give(stream, [to = seen_by_device(to), from = seen_by_device(from), bytes] {
      std::memcpy(to, from, bytes);
    });
  }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(int device, std::size_t bytes) const override {
    return {simulated::allocate(bytes, device), Release()};
  }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(int /*device*/,
                                                           std::size_t bytes) const override {
    const std::shared_ptr<std::byte[]> memory(std::make_unique<std::byte[]>(bytes));
    return {memory, memory.get()};
  }
  [[nodiscard]] std::shared_ptr<std::byte> pin(int /*device*/, std::shared_ptr<std::byte> memory,
                                               std::size_t /*bytes*/) const override {
    return memory;
  }
};

class RuntimeWithoutPinning final : public Runtime {
 public:
  [[nodiscard]] std::shared_ptr<std::byte> pin(int /*device*/,
                                               std::shared_ptr<std::byte> /*memory*/,
                                               std::size_t /*bytes*/) const override {
    throw Error("simulated: no memory can be pinned");
  }
};

// Copies of one buffer to the device and back.
class Travelling {
 public:
  Travelling(const DeviceRuntime& runtime, DeviceStream stream, const void* data,
             std::int64_t count, DataType type)
      : runtime_(runtime), stream_(stream) {
    const auto bytes = static_cast<std::size_t>(count) * size_of(type);
    memory_ = runtime.allocate(0, bytes + 1);
    there_ = Buffer::on_device(memory_.get(), count, type, stream);
    if (bytes > 0) runtime.copy(0, memory_.get(), data, bytes, stream);
    runtime.record(0, stream)->wait();
  }

  [[nodiscard]] const Buffer& there() const { return there_; }
  void come_back(void* data) const {
    if (there_.bytes() > 0) runtime_.copy(0, data, memory_.get(), there_.bytes(), stream_);
    runtime_.record(0, stream_)->wait();
  }

 private:
  const DeviceRuntime& runtime_;
  DeviceStream stream_;
  std::shared_ptr<std::byte> memory_;
  Buffer there_;
};

class ThroughDevice final : public Backend {
 public:
  ThroughDevice(Communicator communicator, std::shared_ptr<const DeviceRuntime> runtime)
      : communicator_(std::move(communicator)),
        runtime_(std::move(runtime)),
        stream_(runtime_->make_stream(0)) {}

  [[nodiscard]] const Topology& topology() const override { return communicator_.topology(); }
  [[nodiscard]] Capabilities capabilities() const override { return communicator_.capabilities(); }
  void execute(const CollectiveCall& call) override;
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override {
    const auto bytes = static_cast<std::size_t>(call.count);
    if (call.collective == Collective::allocate) return {communicator_.allocate(bytes)};
    if (call.collective == Collective::allocate_shared) return communicator_.allocate_shared(bytes);
    auto memory = communicator_.allocate_for_node(bytes);
    return memory ? std::vector{std::move(memory)} : std::vector<std::shared_ptr<std::byte>>{};
  }
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override {
    auto part = communicator_.split(color, key);
    return part ? std::make_shared<ThroughDevice>(*std::move(part), runtime_) : nullptr;
  }
  void abort(int exit_code, std::string_view) noexcept override { communicator_.abort(exit_code); }

 private:
  void ask_for(const CollectiveCall& call, const Buffer& input, const Buffer& output);

  Communicator communicator_;
  std::shared_ptr<const DeviceRuntime> runtime_;
  std::shared_ptr<void> stream_;
};

void ThroughDevice::execute(const CollectiveCall& call) {
  if (call.collective == Collective::barrier) return communicator_.barrier();
  const bool is_in_place = traits_of(call.collective).buffers == BufferShape::in_place;
  auto* const stream = stream_.get();
  const Travelling input(*runtime_, stream, call.input.data, call.input.count, call.input.type);
  const Travelling output(*runtime_, stream, call.output.data, is_in_place ? 0 : call.output.count,
                          call.output.type);
  const auto& result = is_in_place ? input : output;
  ask_for(call, input.there(), result.there());
  result.come_back(call.output.data);
}

void ThroughDevice::ask_for(const CollectiveCall& call, const Buffer& input, const Buffer& output) {
  const CallOptions options{.name = call.name};
  switch (call.collective) {
    case Collective::all_reduce:
      return communicator_.all_reduce(output, call.op, options);
    case Collective::broadcast:
      return communicator_.broadcast(output, call.peer, options);
    case Collective::all_gather:
      return communicator_.all_gather(input, output, options);
    case Collective::all_gather_uneven:
      return communicator_.all_gather_uneven(input, output, call.receive_counts, options);
    case Collective::reduce_scatter:
      return communicator_.reduce_scatter(input, output, call.op, options);
    case Collective::all_to_all:
      return communicator_.all_to_all(input, call.send_counts, output, call.receive_counts,
                                      options);
    default:
      throw Error("simulated: a collective without buffers");
  }
}

}  // namespace

// The default stream works at once.
void give(DeviceStream stream, std::function<void()> work) {
  if (stream == nullptr)
    work();
  else
    static_cast<Stream*>(stream)->add(std::move(work));
}

std::shared_ptr<const DeviceRuntime> runtime() {
  return std::make_shared<Runtime>();
}

std::shared_ptr<const DeviceRuntime> runtime_without_pinning() {
  return std::make_shared<RuntimeWithoutPinning>();
}

std::shared_ptr<const DeviceRuntime> runtime_of_tests() {
  return is_gpu_wanted() ? cuda_runtime() : runtime();
}

Communicator through_device(const Communicator& communicator,
                            std::shared_ptr<const DeviceRuntime> runtime) {
  return Communicator(std::make_shared<ThroughDevice>(communicator, std::move(runtime)));
}

}  // namespace kolo::testing::simulated
