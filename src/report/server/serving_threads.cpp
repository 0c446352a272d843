#include "report/server/serving_threads.h"

#include <system_error>

namespace kolo {

ServingThreads::Accepted ServingThreads::enqueue(std::function<void()> serve) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(serve));
    if (idle_ < waiting_.size() && threads_.size() < most_) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        if (threads_.empty()) throw;  // otherwise those that there are do it
      }
    }
  }
  has_changed_.notify_one();
  return static_cast<Accepted>(true);
}

void ServingThreads::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    has_changed_.wait(lock, [&] { return is_over_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    const auto serve = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    serve();
    lock.lock();
  }
}

void ServingThreads::end() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  has_changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace kolo
