#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "kolo/comm/device.h"

namespace kolo {

// Tells, on a thread of its own, when a device comes to the collectives that it has been given, one
// after another: a stream does them in order. While there are any it asks the device a thousand
// times a second; the thread starts with the first.
class CompletionPoller {
 public:
  CompletionPoller();
  CompletionPoller(const CompletionPoller&) = delete;
  CompletionPoller& operator=(const CompletionPoller&) = delete;
  // May come from the poller's own thread: what a collective is followed for may own the last share
  // in what owns this.
  ~CompletionPoller() { stop(); }

  // Ends its thread. What is not done by then, and what comes later, is forgotten.
  void stop();

  // `started` is called when all before it are done and `ready` has come (null: at once),
  // `finished` after `done`; true: the device has failed.
  void add(std::shared_ptr<const DeviceEvent> ready, std::shared_ptr<const DeviceEvent> done,
           std::function<void()> started, std::function<void(bool failed)> finished);

 private:
  struct State;

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace kolo
