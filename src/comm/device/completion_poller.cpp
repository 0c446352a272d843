#include "comm/device/completion_poller.h"

#include <chrono>
#include <exception>
#include <utility>

namespace kolo {

namespace {

constexpr std::chrono::milliseconds interval{1};

}  // namespace

CompletionPoller::~CompletionPoller() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CompletionPoller::add(std::shared_ptr<const DeviceEvent> event, std::function<void()> started,
                           std::function<void(bool)> finished) {
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) started();
  pending_.push_back({std::move(event), std::move(started), std::move(finished)});
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  changed_.notify_all();
}

void CompletionPoller::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_stopping_ || !pending_.empty(); });
    if (is_stopping_) return;
    if (!finish_first(lock)) changed_.wait_for(lock, interval, [&] { return is_stopping_; });
  }
}

// The lock is held but while the device is asked, which may take long when it has failed.
bool CompletionPoller::finish_first(std::unique_lock<std::mutex>& lock) {
  const auto event = pending_.front().event;
  lock.unlock();
  bool is_done = true, has_failed = false;
  try {
    is_done = event->is_done();
  } catch (const std::exception&) {
    has_failed = true;
  }
  lock.lock();
  if (!is_done) return false;
  const auto first = std::move(pending_.front());
  pending_.pop_front();
  first.finished(has_failed);
  if (!pending_.empty()) pending_.front().started();
  return true;
}

}  // namespace kolo
