#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <httplib.h>

namespace kolo {

// A thread for each connection, as long as there are few enough; the library's own choice has eight
// for all, which eight clients that say nothing keep busy. A connection that comes when all threads
// have one waits for the first that is done.
class ServingThreads final : public httplib::TaskQueue {
 public:
  explicit ServingThreads(std::size_t most) : most_(most) {}
  ServingThreads(const ServingThreads&) = delete;
  ServingThreads& operator=(const ServingThreads&) = delete;
  ~ServingThreads() override { end(); }

  // Some versions of the library want to know whether it was accepted.
  using Accepted = decltype(std::declval<httplib::TaskQueue&>().enqueue({}));
  Accepted enqueue(std::function<void()> serve) override;

  // Serves first what has come.
  void shutdown() override { end(); }

 private:
  void work();
  void end();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable has_changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t idle_ = 0;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kolo
