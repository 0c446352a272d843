#include "comm/device/completion_poller.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace kolo {

namespace {

constexpr std::chrono::milliseconds interval{1};

}  // namespace

// What the thread needs; it has a share of its own.
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

// The lock is held but while the device is asked, which may take long when it has failed, and while
// what a collective was followed for goes, which may end the poller.
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

}  // namespace kolo
