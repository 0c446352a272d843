#include "run/run_start.h"

#include <array>
#include <cstdint>
#include <ostream>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/launch/launch_environment.h"
#include "run/copy_search.h"
#include "run/run_training.h"

namespace kolo {

namespace {

// Whether anything is left to do, as rank 0 has found. Collective.
bool has_work(const Communicator& communicator, const PreparedRun& run) {
  std::int32_t answer = run.finished.empty() ? 1 : 0;
  communicator.broadcast(std::span(&answer, 1), 0, {.name = "what is left to do"});
  return answer != 0;
}

// Of a run that goes on. Collective, where there may be copies.
void find_start(RunStart& start, PreparedRun& run, const RunOptions& options,
                const Communicator& communicator) {
  const bool is_root = communicator.rank() == 0;
  start.goes_on = true;
  std::optional<FoundCopy> copy;
  const bool looks = looks_for_copies(run.config.checkpoint, options.resume);
  if (looks)
    copy = find_copy(communicator, run.config.checkpoint, run.folder, run.resumed,
                     [&](const std::string& text) { start.warnings.push_back(text); });
  if (is_root && copy) {
    go_on_from(*copy, run, options, communicator.size());
    start.from = std::move(copy->loaded);
  } else if (is_root && !run.awaits_copy) {
    start.from = load_resumed(run, options, communicator.size(), start.warnings);
  } else if (is_root && environment_variable(may_begin_variable)) {
    run.folder.keep_records_of_attempt();
  } else if (is_root) {
    throw InputError(
        fmt::format("resume: {} holds no checkpoint that can be used, and no node has a copy in "
                    "{}; run without --resume to start from the beginning",
                    run.folder.checkpoints().string(), run.config.checkpoint.local_folder));
  }
  if (!looks) return;
  std::array<std::int32_t, 2> found{start.from ? 1 : 0, copy ? 1 : 0};
  communicator.broadcast(std::span(found), 0, {.name = "where the run goes on"});
  start.goes_on = found[0] != 0;
  start.is_from_copy = found[1] != 0;
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
  if (is_root) start.lock = RunLock::of_rank_0(run.folder, run.starts_anew());
  if (options.resume) find_start(start, run, options, communicator);
  return start;
}

}  // namespace kolo
