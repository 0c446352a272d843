#include "cli/bench/bench_progress.h"

#include <utility>

#include "launch/terminal.h"

namespace kolo {

BenchProgress::BenchProgress(bool is_shown) {
  if (!is_shown) return;
  const auto options = progress_options_from_environment();
  bar_.emplace(progress_stream(options), options);
}

void BenchProgress::start(std::string part, std::int64_t steps) {
  done_ = 0;
  if (bar_) bar_->start(std::move(part), steps);
}

std::function<void()> BenchProgress::step_done() {
  if (!bar_) return [] {};
  return [this] { bar_->update(++done_, {}); };
}

void BenchProgress::finish() {
  if (bar_) bar_->clear();
}

}  // namespace kolo
