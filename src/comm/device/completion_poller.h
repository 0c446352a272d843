#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "kolo/comm/device.h"

namespace kolo {

// Tells, on a thread of its own, when a device comes to the collectives that it has been given, one
// after another: a stream does them in order. While there are any it asks the device a thousand
// times a second; the thread starts with the first.
class CompletionPoller {
 public:
  CompletionPoller() = default;
  CompletionPoller(const CompletionPoller&) = delete;
  CompletionPoller& operator=(const CompletionPoller&) = delete;
  ~CompletionPoller();  // what is not done by then is forgotten

  // `started` is called when all before it are done, `finished` after the event; true: the device
  // has failed.
  void add(std::shared_ptr<const DeviceEvent> event, std::function<void()> started,
           std::function<void(bool failed)> finished);

 private:
  struct Pending {
    std::shared_ptr<const DeviceEvent> event;
    std::function<void()> started;
    std::function<void(bool)> finished;
  };

  void loop();
  [[nodiscard]] bool finish_first(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace kolo
