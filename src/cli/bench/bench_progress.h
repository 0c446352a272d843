#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kolo/observe/progress.h"

namespace kolo {

// How far a bench has come, on rank 0: a bar for each of its parts.
class BenchProgress {
 public:
  explicit BenchProgress(bool is_shown);

  void start(std::string part, std::int64_t steps);
  // What to call after each step.
  [[nodiscard]] std::function<void()> step_done();
  // Before anything is printed.
  void finish();

 private:
  std::optional<ProgressBar> bar_;
  std::int64_t done_ = 0;
};

}  // namespace kolo
