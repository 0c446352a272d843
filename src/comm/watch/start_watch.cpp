#include "comm/watch/watch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/messages.h"

namespace kolo {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds longest_silence{60};

}  // namespace

void tell(const WatchOptions& options, const std::string& message) {
  if (options.report) return options.report(message);
  print_line(message);
}

StartWatch::StartWatch(const WatchOptions& options, std::string who, AtLimit at_limit)
    : options_(options), who_(std::move(who)), at_limit_(at_limit) {
  const bool has_limit = options_.limit.count() > 0 && at_limit_ == AtLimit::process_ends;
  if (options_.enabled && (options_.warning.count() > 0 || has_limit))
    thread_ = std::thread([this] { loop(); });
}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  if (!thread_.joinable()) return;
  changed_.notify_all();
  thread_.join();
  if (has_told_) {
    const Seconds waited = std::chrono::steady_clock::now() - begin_;
    tell(options_,
         fmt::format("watch: {}: initialization went on after {:.1f} s", who_, waited.count()));
  }
}

void StartWatch::loop() {
  constexpr Seconds never{1e9};
  const bool has_limit = options_.limit.count() > 0 && at_limit_ == AtLimit::process_ends;
  const Seconds limit = has_limit ? options_.limit : never;
  Seconds warning =
      options_.warning.count() > 0 ? std::min(options_.warning, longest_silence) : never;
  std::unique_lock lock(mutex_);
  while (true) {
    const Seconds next = std::min(warning, limit);
    if (changed_.wait_until(lock,
                            begin_ + std::chrono::duration_cast<std::chrono::nanoseconds>(next),
                            [&] { return is_over_; }))
      return;
    const auto text = fmt::format(
        "watch: {} has waited {:.1f} s in kolo::initialize() for other ranks: all of them have to "
        "call it, and some have not come to it yet, or have ended before",
        who_, Seconds(std::chrono::steady_clock::now() - begin_).count());
    has_told_ = true;
    if (next >= limit) {
      tell(options_,
           fmt::format("{}; the limit is {:.4g} s, and the job ends", text, limit.count()));
      ::_exit(1);
    }
    tell(options_, text);
    warning *= 2;
  }
}

}  // namespace kolo
