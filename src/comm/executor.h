#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/own_process.h"
#include "kolo/comm/work.h"

namespace kolo {

// Runs a communicator's collectives one at a time, in the order in which they were asked for, which
// is what lets ranks meet in the same collective. With `threaded`, asynchronous ones run on a
// thread of the executor's own (the communication thread); without, they run in submit() before it
// returns (a back end that must not be called from two threads). What a task itself submits or runs
// is done at once, inside it.
class Executor {
 public:
  // `process`: of the executor that it belongs to; none: this one's own.
  explicit Executor(bool threaded, std::shared_ptr<const OwnProcess> process = nullptr);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();  // what was submitted is finished first

  // `order`: of a collective on a device's memory. `on_wait`: of Work::State.
  Work submit(std::function<void()> task, std::shared_ptr<const DeviceOrder> order = nullptr,
              std::function<void(bool begins)> on_wait = nullptr);
  // A task that hands a collective over to a device: as run(), and a Work that the device's stream
  // waits for. Throws what the task throws.
  Work hand_over(const std::function<void()>& task, std::shared_ptr<const DeviceOrder> order);

  // Runs the task after everything submitted before and returns when it is done. The calling thread
  // itself runs it when nothing is pending: a hand-over to another thread costs more than a small
  // collective. `on_wait` is told where it is another thread.
  void run(const std::function<void()>& task,
           const std::function<void(bool begins)>& on_wait = nullptr);

  [[nodiscard]] bool is_threaded() const { return is_threaded_; }

  // Whether the calling thread is the one that runs a task now.
  [[nodiscard]] bool is_inside_task() const {
    return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  // Tells whether the calling thread runs a task of any executor. Takes no lock: at the end of a
  // process the thread of an executor may hold one.
  [[nodiscard]] static bool is_running_here();

  // Not so in a fork of the process that has made it: there is no thread, nobody to wait for, and
  // nothing to be told to others.
  [[nodiscard]] bool is_in_own_process() const { return process_->is_here(); }

  // Something has been submitted that is not done.
  [[nodiscard]] bool is_pending() const { return pending_ > 0; }

  // Finishes what was submitted, and ends the thread; whoever asks for more gets a StateError with
  // this message. Likewise for those made by make_sibling(), and by these. Not from a task.
  void close(const std::string& message);
  // One for another communicator, which ends with this.
  [[nodiscard]] std::shared_ptr<Executor> make_sibling(bool threaded);

 private:
  struct Item {
    std::function<void()> task;
    std::shared_ptr<Work::State> state;
  };

  void loop();
  void check_open() const;  // under the mutex
  void execute(const std::function<void()>& task);
  void complete(const Item& item);

  void end_thread();

  const bool is_threaded_;
  const std::shared_ptr<const OwnProcess> process_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::atomic<int> pending_ = 0;
  bool busy_ = false;                    // somebody is inside a task
  std::atomic<std::thread::id> runner_;  // who; a thread only ever looks whether it is itself
  bool stopping_ = false;
  std::string closed_;  // the message; empty: open
  std::vector<std::weak_ptr<Executor>> siblings_;
  std::thread thread_;
};

}  // namespace kolo
