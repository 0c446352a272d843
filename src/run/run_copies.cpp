#include "run/run_copies.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"
#include "kolo/observe/format.h"
#include "kolo/parallel/object_collectives.h"
#include "launch/terminal.h"
#include "run/copy_search.h"
#include "run/rank_guard.h"

namespace kolo {

namespace {

// Of what nobody writes to: far longer than any job waits until it is started again.
constexpr std::chrono::hours long_dead{24};

// Another's copies are made at the same time as those that checkpoints are written from.
constexpr int snapshots_here = 2;

// Of rank 0, on all.
std::string on_all_ranks(const Communicator& communicator, const std::string& text) {
  return broadcast_bytes(communicator, communicator.rank() == 0 ? text : "");
}

}  // namespace

RunCopies::RunCopies(const RunConfig& config, const RunFolder& folder, const RunBegin& begin,
                     const WorkShare& share, const Communicator& communicator,
                     const Trainer& trainer)
    : config_(config.checkpoint),
      trainer_(trainer),
      start_(on_all_ranks(communicator, begin.id)),
      is_first_of_node_(communicator.topology().local_rank == 0),
      shares_buffers_(trainer.has_whole_network() && communicator.topology().nodes > 1),
      warn_([rank = communicator.rank()](const std::string& warning) {
        complain(fmt::format("{}: {}", describe_rank(rank), warning));
      }),
      local_(config_.local_folder, on_all_ranks(communicator, copy_key(folder))),
      store_(local_.store()) {
  auto from_step = begin.from_step;
  communicator.broadcast(std::span(&from_step, 1), 0, {.name = "the step of a start"});
  const bool is_whole = trainer.has_whole_network();
  has_part_ = !is_whole && share.mesh->replicas().rank() == 0;
  if (is_whole ? is_first_of_node_ : communicator.rank() == 0) prepare(from_step);
}

// Where this can't be done there are no copies on this node, and that is said.
void RunCopies::prepare(std::int64_t from_step) {
  try {
    for (const auto& path : local_.remove_stale(long_dead))
      warning_ += fmt::format(
          "local copies: {} was left by a run that ended a day ago or more; "
          "it is removed. ",
          path.string());
    is_writer_ = local_.take();
    if (is_writer_) store_.remove_after(from_step);
  } catch (const std::exception& error) {
    is_writer_ = false;
    warning_ += fmt::format("{}; there are no copies of the state on this node", error.what());
  }
}

std::uint64_t RunCopies::bytes() const {
  return trainer_.checkpoint_bytes();
}

void RunCopies::attach_to(Trainer& trainer, Hooks hooks) {
  if (hooks.warn) warn_ = std::move(hooks.warn);
  if (!warning_.empty()) warn_(warning_);
  StateCopies::Work work;
  work.warn = warn_;
  work.before = [this, before = std::move(hooks.before)] {
    before();
    if (shares_buffers_) trainer_.share_buffers();
  };
  work.check = [this] { local_.require_room(bytes()); };
  work.is_collective = has_part_;
  if (is_writer_ || has_part_) {
    // It says itself, in other words, when there is no memory.
    snapshots_.emplace(trainer_, SnapshotOptions{.writers_here = snapshots_here});
    if (is_writer_) trainer.add_observer(*snapshots_);
    work.take = [this] { return take(); };
  }
  trainer.add_observer(observer_.emplace(config_.local_every_steps, is_writer_ ? &store_ : nullptr,
                                         std::move(work)));
}

std::optional<Snapshot> RunCopies::take() {
  auto snapshot = snapshots_->take();
  if (!snapshot.is_copy) {
    throw Error(fmt::format(
        "local copies: this machine has not enough memory left for {} of the network and its "
        "optimizer's state, from which a copy is written",
        format_bytes(bytes())));
  }
  snapshot.content.state[copy_start_key] = start_;
  return snapshot;
}

void RunCopies::remove(const Communicator& communicator) {
  communicator.barrier();
  if (!is_first_of_node_) return;
  try {
    // On a node that writes none an earlier start, of ranks in other places, may have left one.
    if (is_writer_ || (local_.is_ours() && local_.take())) local_.remove();
  } catch (const std::exception& error) {
    warn_(error.what());
  }
}

std::string RunCopies::describe() const {
  if (!is_writer_) return {};
  const auto& place = local_.path().string();
  if (!trainer_.has_whole_network())
    return fmt::format(
        "every {} steps a copy of the state goes to {} of this node, which has rank 0",
        config_.local_every_steps, place);
  return fmt::format("every {} steps a copy of the state, {}, goes to {} of each node",
                     config_.local_every_steps, format_bytes(bytes()), place);
}

}  // namespace kolo
