#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <unistd.h>

#include "comm/weak_list.h"
#include "kolo/comm/work.h"

namespace kolo {

// Runs a communicator's collectives one at a time, in the order in which they were asked for, so
// that ranks meet in the same collective. With `threaded`, asynchronous ones run on a thread of the
// executor's own (the communication thread); without, in submit() (a back end that must not be
// called from two threads). A task's own calls run at once, inside it.
class Executor {
 public:
  explicit Executor(bool threaded);
  ~Executor();  // what was submitted is finished first

  // Runs the task after everything submitted before. `order`: that of a collective on a device's
  // memory. `on_wait`: Work::State's.
  Work submit(std::function<void()> task, std::shared_ptr<const DeviceOrder> order = nullptr,
              std::function<void(bool begins)> on_wait = nullptr);
  // Runs, as run(), a task that hands a collective over to a device. Returns a Work that the
  // device's stream waits for.
  Work hand_over(const std::function<void()>& task, std::shared_ptr<const DeviceOrder> order);

  // Runs the task after everything submitted before, and returns when it is done. The calling
  // thread runs it where nothing is pending, because going over to another thread costs more than a
  // small collective; otherwise `on_wait` is told.
  void run(const std::function<void()>& task,
           const std::function<void(bool begins)>& on_wait = nullptr);

  // Tells whether the calling thread runs a task now.
  [[nodiscard]] bool is_inside_task() const {
    return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  // Reason why exit() can't end communication on the calling thread; empty: it can. `deed`: what a
  // thread must have done for that. Takes no lock, which another thread may hold when the process
  // ends.
  [[nodiscard]] static std::string what_forbids_end(bool is_other_thread, std::string_view deed);

  // False in a fork of the process that has made it, which has no thread to wait for.
  [[nodiscard]] bool is_in_own_process() const { return ::getpid() == process_; }

  // Tells whether something that was submitted is not done.
  [[nodiscard]] bool is_pending() const { return pending_ > 0; }

  // Finishes what was submitted, and ends the thread, here and in all siblings; later calls are
  // StateErrors with this message. Not from a task.
  void close(const std::string& message);
  // Makes an executor for another communicator, which close() closes as well.
  [[nodiscard]] std::shared_ptr<Executor> make_sibling(bool threaded);

 private:
  struct Item {
    std::function<void()> task;
    std::shared_ptr<Work::State> state;
  };

  void loop();
  void check_open() const;  // under the mutex
  [[nodiscard]] std::exception_ptr execute(const std::function<void()>& task);
  void complete(const Item& item);
  void end_thread();

  const bool is_threaded_;
  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::atomic<int> pending_ = 0;
  bool busy_ = false;                    // somebody is inside a task
  std::atomic<std::thread::id> runner_;  // who; a thread only ever looks whether it is itself
  bool stopping_ = false;
  std::string closed_;  // the message; empty: open
  WeakList<Executor> siblings_;
  std::thread thread_;
};

}  // namespace kolo
