#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace kolo {

struct DeviceOrder;

// One pending collective or transfer, or the transfers of an exchange. Copies refer to the same; a
// default-made Work is one that is done. The buffers given to it must live, untouched, until it is
// done. May be waited for from any thread.
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
  friend class TransferDesk;

  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::size_t parts = 1;                                   // that are not done
    std::exception_ptr error;                                // the first
    std::vector<std::shared_ptr<const DeviceOrder>> orders;  // of calls on a device's memory

    // Goes on with transfers, for a while, where no thread of kolo's may call MPI: those who wait
    // do.
    std::function<void()> go_on;

    // Is told when a thread begins to wait for it, and when that goes on.
    std::function<void(bool begins)> on_wait;

    // One part is done.
    void complete(std::exception_ptr failure);
    [[nodiscard]] bool is_done();
  };

  class Waiting;

  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void hold_back_stream() const;

  std::shared_ptr<State> state_;
};

}  // namespace kolo
