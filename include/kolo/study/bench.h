#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kolo/config/run_config.h"
#include "kolo/study/bench_report.h"
#include "kolo/study/measure.h"

// A configuration measured, as `kolo bench` does it.
namespace kolo {

struct BenchRequest {
  ConfigSource config;
  std::vector<BenchMode> modes = {BenchMode::io, BenchMode::synthetic, BenchMode::full};
  BenchPlan plan;            // but for step_done
  bool profile = false;      // also the parts of a step without communication
  bool collectives = false;  // also all-reduces among the ranks
};

// What rank 0 is told meanwhile.
struct BenchListener {
  std::function<void(const std::string&)> warning;
  std::function<void(const std::string& part, std::int64_t steps)> part_begins;
  std::function<void()> step_done, parts_end;
  std::function<void(const BenchReport&)> report;  // at the end
};

// Called on each rank, as run() is, and returns the same statuses, or throws where the rank is
// alone. Nothing is written to disk, and what is trained is lost.
[[nodiscard]] int bench_run(const BenchRequest& request, const BenchListener& listener);

// InputError for what bench_run() would refuse: for who starts the ranks. Returns the
// configuration.
RunConfig check_bench(const BenchRequest& request, int ranks);

}  // namespace kolo
