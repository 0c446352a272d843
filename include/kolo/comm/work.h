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

// A pending collective or transfer, or the transfers of an exchange. Copies refer to the same; a
// default-made Work is done. Its buffers must live, untouched, until it is done. Any thread may
// wait for it.
class Work {
 public:
  Work() = default;

  // Blocks until the collective is done; every waiter gets its exception. On a device's memory,
  // blocks until the device has been given the work: later work of the buffer's stream sees the
  // result.
  void wait() const;

  // Waits for at most this long; false where it is not done by then.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit) const;

  [[nodiscard]] bool is_done() const;

 private:
  friend class Executor;
  friend class TransferDesk;

  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::size_t pending = 1;                                 // calls that are not done
    std::exception_ptr error;                                // the first
    std::vector<std::shared_ptr<const DeviceOrder>> orders;  // of calls on a device's memory

    // Goes on with transfers, for a while, on a waiting thread, where kolo's threads may not call
    // MPI.
    std::function<void()> go_on;

    // Told when a thread begins to wait, and when it goes on.
    std::function<void(bool begins)> on_wait;

    // Ends one call.
    void complete(std::exception_ptr failure);
    [[nodiscard]] bool is_done();
  };

  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void hold_back_stream() const;

  std::shared_ptr<State> state_;
};

}  // namespace kolo
