#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cli/bench/bench_report.h"
#include "kolo/comm/communicator.h"
#include "kolo/data/loader.h"
#include "kolo/train/trainer.h"

namespace kolo {

struct BenchPlan {
  std::int64_t steps = 10;  // a trial
  std::int64_t warmup = 5;  // steps before the first trial
  std::int64_t trials = 5;
  // Is told of each step that is done, the warm-up's too, on whatever rank has it.
  std::function<void()> step_done = [] {};

  [[nodiscard]] std::int64_t all_steps() const { return warmup + trials * steps; }
};

// Measures on this rank; trials follow each other without a pause, so that the loader's queue is as
// in the midst of a training. Collective.
//
// The loader alone: how fast batches can be had.
[[nodiscard]] std::vector<BenchTrial> measure_loader(const Communicator& communicator,
                                                     Loader& loader, const BenchPlan& plan);
// Training steps on one batch, loaded once.
[[nodiscard]] std::vector<BenchTrial> measure_steps(const Communicator& communicator,
                                                    Trainer& trainer, Loader& loader,
                                                    const BenchPlan& plan);
// Training steps on the loader's batches.
[[nodiscard]] std::vector<BenchTrial> measure_training(const Communicator& communicator,
                                                       Trainer& trainer, Loader& loader,
                                                       const BenchPlan& plan);

// The first one of an epoch.
[[nodiscard]] Batch first_batch(Loader& loader);

// All ranks' trials, by rank. Collective.
[[nodiscard]] std::vector<std::vector<BenchTrial>> gather(const Communicator& communicator,
                                                          const std::vector<BenchTrial>& mine);

}  // namespace kolo
