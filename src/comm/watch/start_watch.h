#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "kolo/comm/watch.h"

namespace kolo {

// Says so where a rank waits for the others to come to what makes a communicator: there is no watch
// yet. As long as this lives; after the warning time, after twice that, and so on, and when it went
// on after all.
class StartWatch {
 public:
  // What happens after the limit.
  enum class AtLimit : std::uint8_t { nothing, process_ends };

  // `who`: "rank 0 of 2". Warns after a minute at the latest, unless warnings are off: ranks that
  // compute for long between their calls begin together.
  StartWatch(const WatchOptions& options, std::string who, AtLimit at_limit);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  ~StartWatch();

 private:
  void loop();
  void tell(const std::string& message) const;

  WatchOptions options_;
  std::string who_;
  AtLimit at_limit_;
  bool has_told_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;  // the last: it uses all of the above
};

}  // namespace kolo
