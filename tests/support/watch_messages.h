#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/file.h"
#include "kolo/comm/threads.h"
#include "kolo/comm/watch.h"
#include "support/temporary_folder.h"

namespace kolo::testing {

// Messages of all ranks' watches.
class WatchMessages {
 public:
  [[nodiscard]] WatchOptions options(double warning, double limit = 0) {
    WatchOptions watch;
    watch.warning = std::chrono::duration<double>(warning);
    watch.limit = std::chrono::duration<double>(limit);
    watch.folder = folder_.path();
    watch.report = [this](const std::string& message) {
      const std::lock_guard lock(mutex_);
      messages_.push_back(message);
    };
    return watch;
  }

  // Runs ranks as threads whose watch warns after so many seconds.
  void watch(int ranks, double warning, const std::function<void(const Communicator&)>& body) {
    run_as_threads(ranks, body, {.watch = options(warning)});
  }

  [[nodiscard]] std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return messages_;
  }

  // Sleeps until that many have come; the test's own deadline ends it otherwise.
  void wait_for(std::size_t count) const {
    while (all().size() < count) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  // Sleeps until one with all these words has come, and returns the first such. On a busy machine a
  // watch may also tell of what a test does not mean, and more than once.
  std::string wait_for(const std::vector<std::string>& words) const {
    while (true) {
      for (const auto& message : all()) {
        const auto holds = [&](const std::string& word) {
          return message.find(word) != std::string::npos;
        };
        if (std::all_of(words.begin(), words.end(), holds)) return message;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  [[nodiscard]] std::string file_of(int rank) const {
    return read_text_file(folder_.path() / fmt::format("kolo-watch-rank-{:05}.txt", rank));
  }

 private:
  TemporaryFolder folder_;
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
};

}  // namespace kolo::testing
