#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace kolo {

struct DeviceOrder;

// One pending collective. Copies refer to the same collective; a default-made Work is one that is
// done. The buffers given to the collective must live, untouched, until it is done. May be waited
// for from any thread.
class Work {
 public:
  Work() = default;

  // Blocks until the collective is done; throws what it threw (every waiter gets it). Of one on a
  // device's memory: until the device has been given it; what the buffer's stream is given from now
  // on sees the result.
  void wait() const;

  // As wait(), for at most this long: false when it is not done by then.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit) const;

  [[nodiscard]] bool is_done() const;

 private:
  friend class Executor;

  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::exception_ptr error;
    std::shared_ptr<const DeviceOrder> order;  // of a collective on a device's memory

    void complete(std::exception_ptr failure);
  };

  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void hold_back_stream() const;

  std::shared_ptr<State> state_;
};

}  // namespace kolo
