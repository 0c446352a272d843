#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kolo/comm/collective_call.h"

namespace kolo::testing {

// Records what a listener is told: "start all-reduce (sum) of 4 float32 \"name\"".
class CallRecorder final : public CollectiveListener {
 public:
  void on_submit(const CollectiveCall& call) noexcept override { note("submit", call); }
  void on_start(const CollectiveCall& call) noexcept override { note("start", call); }
  void on_finish(const CollectiveCall& call, bool failed) noexcept override {
    note(failed ? "fail" : "finish", call);
  }
  [[nodiscard]] std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  void note(const std::string& what, const CollectiveCall& call) noexcept {
    const std::lock_guard lock(mutex_);
    events_.push_back(what + " " + call.describe() + " \"" + call.name + "\"");
  }

  std::mutex mutex_;
  std::vector<std::string> events_;
};

}  // namespace kolo::testing
