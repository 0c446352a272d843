#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>

#include <CLI/CLI.hpp>

#include "kolo/base/clock.h"
#include "kolo/observe/progress.h"

namespace kolo {

// What the commands that make data sets share: where to, with what, and how it is shown.
struct MakingArguments {
  std::string source_kind;  // --from
  std::string source;       // --source; empty: where it lies as a rule
  std::string output;
  std::uint64_t seed = 0;
  int threads = 0;  // 0: as many as there are processors
  bool force = false;

  [[nodiscard]] int thread_count() const;
};

void add_making_options(CLI::App& command, MakingArguments& arguments);

// A progress bar on stdout from here to finish(), and the time it took.
class MakingProgress {
 public:
  MakingProgress();

  // May be called from any thread.
  void show(std::int64_t done, std::int64_t total);
  // Takes the bar away; the seconds since the beginning.
  [[nodiscard]] double finish();

 private:
  std::mutex mutex_;
  ProgressBar bar_;
  Stopwatch watch_;
  std::int64_t total_ = -1, most_done_ = 0;
};

}  // namespace kolo
