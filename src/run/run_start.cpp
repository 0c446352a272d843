#include "run/run_start.h"

#include <cstdint>
#include <ostream>
#include <span>

#include "run/run_training.h"

namespace kolo {

namespace {

// Whether anything is left to do, as rank 0 has found. Collective.
bool has_work(const Communicator& communicator, const PreparedRun& run) {
  std::int32_t answer = run.finished.empty() ? 1 : 0;
  communicator.broadcast(std::span(&answer, 1), 0, {.name = "what is left to do"});
  return answer != 0;
}

}  // namespace

std::optional<RunStart> start_run(PreparedRun& run, const RunOptions& options,
                                  const Communicator& communicator) {
  const bool is_root = communicator.rank() == 0;
  if (!has_work(communicator, run)) {
    if (is_root) console_of(options) << run.finished << std::endl;
    return std::nullopt;
  }
  RunStart start;
  if (!is_root) return start;
  start.lock = RunLock::of_rank_0(run.folder, run.starts_anew());
  if (options.resume) start.from = load_resumed(run, options, communicator.size(), start.warnings);
  return start;
}

}  // namespace kolo
