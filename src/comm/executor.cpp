#include "comm/executor.h"

#include <utility>

namespace kolo {

Executor::Executor(bool threaded) {
  if (threaded) thread_ = std::thread([this] { loop(); });
}

Executor::~Executor() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Work Executor::submit(std::function<void()> task) {
  Item item{std::move(task), std::make_shared<Work::State>()};
  const Work work(item.state);
  if (!is_threaded() || is_inside_task()) {
    complete(item);
    return work;
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  changed_.notify_all();
  return work;
}

void Executor::run(const std::function<void()>& task) {
  if (is_inside_task()) return task();
  {
    std::unique_lock lock(mutex_);
    if (is_threaded() && (busy_ || !queue_.empty())) {
      lock.unlock();
      submit(task).wait();
      return;
    }
    busy_ = true;
  }
  std::exception_ptr failure;
  try {
    execute(task);
  } catch (...) {
    failure = std::current_exception();
  }
  bool is_awaited = false;
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    is_awaited = stopping_ || !queue_.empty();
  }
  // Waking the thread to find nothing takes longer than a small collective.
  if (is_awaited) changed_.notify_all();
  if (failure) std::rethrow_exception(failure);
}

bool Executor::is_pending() {
  const std::lock_guard lock(mutex_);
  return busy_ || !queue_.empty();
}

void Executor::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !busy_ && (stopping_ || !queue_.empty()); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    complete(item);
    item = {};  // what the task owned may use this executor as it goes
    lock.lock();
    busy_ = false;
  }
}

// Notes for as long as the task runs that it is this thread that does.
void Executor::execute(const std::function<void()>& task) {
  struct Runner {
    std::atomic<std::thread::id>& place;
    std::thread::id before;
    explicit Runner(std::atomic<std::thread::id>& runner)
        : place(runner), before(runner.exchange(std::this_thread::get_id())) {}
    ~Runner() { place.store(before); }
  };
  const Runner runner(runner_);
  task();
}

void Executor::complete(const Item& item) {
  try {
    execute(item.task);
    item.state->complete(nullptr);
  } catch (...) {
    item.state->complete(std::current_exception());
  }
}

}  // namespace kolo
