#include "comm/executor.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/comm/collective_call.h"
#include "kolo/comm/work.h"

namespace kolo {

namespace {

thread_local int tasks_of_this_thread = 0;

// Tells the watch for how long this thread waits.
class Waiting {
 public:
  explicit Waiting(const std::function<void(bool begins)>& tell) : tell_(tell) {
    if (tell_) tell_(true);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    if (tell_) tell_(false);
  }

 private:
  const std::function<void(bool begins)>& tell_;
};

}  // namespace

std::string Executor::what_forbids_end(bool is_other_thread, std::string_view deed) {
  if (tasks_of_this_thread > 0) return "exit() was called inside a collective";
  if (!is_other_thread) return {};
  return fmt::format("another thread than that which {} has called exit()", deed);
}

void Work::State::complete(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex);
    if (!error) error = std::move(failure);
    if (--pending > 0) return;
    done = true;
  }
  changed.notify_all();
}

bool Work::State::is_done() {
  const std::lock_guard lock(mutex);
  return done;
}

void Work::wait() const {
  if (!state_) return;
  if (!state_->is_done()) {
    const Waiting waiting(state_->on_wait);
    while (state_->go_on && !state_->is_done()) state_->go_on();
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->done; });
  }
  if (state_->error) std::rethrow_exception(state_->error);
  hold_back_stream();
}

void Work::hold_back_stream() const {
  for (const auto& order : state_->orders) {
    if (order->done) order->done->hold_back(order->stream);
  }
}

bool Work::wait_for(std::chrono::nanoseconds limit) const {
  if (!state_) return true;
  const auto end = std::chrono::steady_clock::now() + limit;
  while (state_->go_on && !state_->is_done() && std::chrono::steady_clock::now() < end)
    state_->go_on();
  if (state_->go_on) limit = std::chrono::nanoseconds(0);
  std::unique_lock lock(state_->mutex);
  if (!state_->changed.wait_for(lock, limit, [&] { return state_->done; })) return false;
  if (state_->error) std::rethrow_exception(state_->error);
  hold_back_stream();
  return true;
}

bool Work::is_done() const {
  if (!state_) return true;
  if (state_->go_on && !state_->is_done()) state_->go_on();
  const std::lock_guard lock(state_->mutex);
  return state_->done && std::ranges::all_of(state_->orders, [](const auto& order) {
           return !order->done || order->done->is_done();
         });
}

Executor::Executor(bool threaded) : is_threaded_(threaded) {
  if (threaded) thread_ = std::thread([this] { loop(); });
}

Executor::~Executor() {
  end_thread();
}

void Executor::end_thread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Work Executor::submit(std::function<void()> task, std::shared_ptr<const DeviceOrder> order,
                      std::function<void(bool begins)> on_wait) {
  Item item{std::move(task), std::make_shared<Work::State>()};
  item.state->on_wait = std::move(on_wait);
  if (order) item.state->orders.push_back(std::move(order));
  const Work work(item.state);
  if (is_inside_task()) {
    ++pending_;
    complete(item);
    return work;
  }
  {
    const std::lock_guard lock(mutex_);
    check_open();
    ++pending_;
    if (is_threaded_) queue_.push_back(std::move(item));
  }
  if (is_threaded_)
    changed_.notify_all();
  else
    complete(item);
  return work;
}

Work Executor::hand_over(const std::function<void()>& task,
                         std::shared_ptr<const DeviceOrder> order) {
  auto state = std::make_shared<Work::State>();
  state->orders.push_back(std::move(order));
  run(task);
  state->done = true;
  return Work(std::move(state));
}

void Executor::run(const std::function<void()>& task,
                   const std::function<void(bool begins)>& on_wait) {
  if (is_inside_task()) return task();
  {
    std::unique_lock lock(mutex_);
    check_open();
    if (is_threaded_ && (busy_ || !queue_.empty())) {
      lock.unlock();
      const Waiting waiting(on_wait);
      submit(task, nullptr, nullptr).wait();
      return;
    }
    busy_ = true;
  }
  const auto failure = execute(task);
  bool is_awaited = false;
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    is_awaited = stopping_ || !closed_.empty() || !queue_.empty();
  }
  // Waking the thread to find nothing takes longer than a small collective.
  if (is_awaited) changed_.notify_all();
  if (failure) std::rethrow_exception(failure);
}

void Executor::check_open() const {
  if (!closed_.empty()) throw StateError(closed_);
}

void Executor::close(const std::string& message) {
  {
    std::unique_lock lock(mutex_);
    if (!closed_.empty()) return;
    closed_ = message;
    changed_.wait(lock, [&] { return !busy_ && queue_.empty(); });
  }
  end_thread();
  for (const auto& sibling : siblings_.present()) sibling->close(message);
}

std::shared_ptr<Executor> Executor::make_sibling(bool threaded) {
  auto sibling = std::make_shared<Executor>(threaded);
  siblings_.add(sibling);
  return sibling;
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
    item = {};  // its members may use this executor in their destructors
    lock.lock();
    busy_ = false;
    if (!closed_.empty()) changed_.notify_all();
  }
}

// Runs a task, notes meanwhile that this thread does, and returns its exception.
std::exception_ptr Executor::execute(const std::function<void()>& task) {
  const auto before = runner_.exchange(std::this_thread::get_id());
  ++tasks_of_this_thread;
  std::exception_ptr failure;
  try {
    task();
  } catch (...) {
    failure = std::current_exception();
  }
  --tasks_of_this_thread;
  runner_.store(before);
  return failure;
}

// Runs an item and completes its Work. Counts down before, because a waiting thread may ask at once
// whether anything is pending.
void Executor::complete(const Item& item) {
  auto failure = execute(item.task);
  --pending_;
  item.state->complete(std::move(failure));
}

}  // namespace kolo
