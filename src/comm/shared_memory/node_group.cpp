#include "comm/shared_memory/node_group.h"

#include <cerrno>
#include <chrono>
#include <climits>
#include <thread>

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/watch/event_block.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"

namespace kolo {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = (limit - seconds).count();
  const long result = syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
  if (result != 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) {
    throw Error(system_error_text("comm: futex wait", errno));
  }
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  if (syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0) < 0) {
    throw Error(system_error_text("comm: futex wake", errno));
  }
}

// Meetings of the ranks; the collectives are in node_collectives.cpp.

namespace {

constexpr int first_looks = 300;
// A wait that is worth a processor: waking a rank that sleeps takes a virtual machine 0.1 ms.
constexpr double short_wait = 3e-4;
constexpr std::chrono::milliseconds between_looks{50};  // between two looks at what others are told
constexpr int sleeps_between_looks_at_process = 10;

// Tells whether so many ranks may have a processor each; one that is bound sees only its own.
bool have_processors(int ranks) {
  static const auto limits = detect_cpu_limits();  // reads some files for each processor
  return ranks <= limits.online && ranks <= limits.quota.value_or(ranks);
}

// Counts wrap round after 2^32 meetings, so they are compared by their distance.
bool has_reached(std::uint32_t count, std::uint32_t meeting) {
  return static_cast<std::int32_t>(count - meeting) >= 0;
}

}  // namespace

bool is_gone(const RankCell& cell) {
  return cell.process != 0 && cell.process_namespace == own_process_namespace() &&
         state_of_process(cell.process) == ProcessState::gone;
}

std::string reason_of_absence(const RankCell& cell) {
  return cell.has_left ? "has left: it came to its end, an exception ended what it did, or it "
                         "finalized MPI, and it takes part in nothing any more"
                       : fmt::format("is gone: its process {} has ended", cell.process);
}

int AbortCell::give_up(std::string_view why, int exit_code) noexcept {
  const auto code = static_cast<std::uint32_t>(exit_code) << code_shift;
  std::uint32_t before = none;
  if (!state.compare_exchange_strong(before, being_written | code))
    return static_cast<int>(before >> code_shift);
  why.copy(reason.data(), reason.size() - 1);
  state.store(given_up | code, std::memory_order_release);
  return exit_code;
}

std::string AbortCell::words() const {
  return (state.load(std::memory_order_acquire) & state_bits) == given_up ? reason.data() : "";
}

NodeGroup::NodeGroup(int local_rank, NodeMemory memory, std::shared_ptr<const PeerMemory> peers,
                     const NodeGroupOptions& options)
    : rank_(local_rank),
      size_(static_cast<int>(memory.cells.size())),
      memory_(std::move(memory)),
      peers_(std::move(peers)),
      options_(options),
      has_processors_(have_processors(size_)),
      operands_(memory_.cells.size()) {
  if (options_.staging_bytes < 2 * 64 * static_cast<std::size_t>(size_)) {
    throw Error(
        fmt::format("comm: staging areas of {} bytes are too small for {} ranks; the least is 128 "
                    "bytes per rank",
                    options_.staging_bytes, size_));
  }
}

void NodeGroup::leave() noexcept {
  RankCell& mine = *memory_.cells[static_cast<std::size_t>(rank_)];
  mine.has_left.store(1, std::memory_order_seq_cst);
  if (mine.sleepers.load(std::memory_order_seq_cst) == 0) return;
  try {
    futex_wake_all(mine.arrived);
  } catch (const Error&) {  // they wake up by themselves, a little later
  }
}

// Publishes this rank's next call, and the location of its buffer if the others can reach it. They
// may look after the next meeting.
void NodeGroup::begin(const CallHeader& call, std::optional<SharedLocation> location) {
  ++announced_;
  memory_.cells[static_cast<std::size_t>(rank_)]->announcements[announced_ % 2] = {
      .call = call,
      .location = location.value_or(SharedLocation{}),
      .reachable = location.has_value() ? 1U : 0U};
}

void NodeGroup::check_announcements() {
  const CallHeader& first = announcement(0).call;
  for (int peer = 1; peer < size_; ++peer) {
    const CallHeader& other = announcement(peer).call;
    const auto difference = first_difference(first, other);
    if (difference.empty()) continue;
    // Ranks may have used their staging areas differently often by now; nobody reads them any more.
    half_ = 0;
    throw Error(
        fmt::format("comm: ranks called different collectives: local rank 0 {}, local rank {} {}; "
                    "all ranks must make the same calls in the same order (they differ in {})",
                    first.describe(), peer, other.describe(), difference));
  }
}

void NodeGroup::agree(const CallHeader& call) {
  begin(call);
  meet();
  check_announcements();
}

bool NodeGroup::all_reachable() const {
  for (int peer = 0; peer < size_; ++peer) {
    if (!announcement(peer).reachable) return false;
  }
  return true;
}

void NodeGroup::meet() {
  if (is_aborted()) throw_aborted();  // also where nobody is ever waited for
  ++meetings_;
  RankCell& mine = *memory_.cells[static_cast<std::size_t>(rank_)];
  // Sequentially consistent on both sides: either this rank sees the sleeper, or the sleeper sees
  // the new count.
  mine.arrived.store(meetings_, std::memory_order_seq_cst);
  if (mine.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(mine.arrived);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) wait_for(peer);
  }
}

void NodeGroup::wait_for(int local_rank) {
  RankCell& cell = *memory_.cells[static_cast<std::size_t>(local_rank)];
  const auto is_there = [&] {
    return has_reached(cell.arrived.load(std::memory_order_acquire), meetings_);
  };
  for (int look = 0; look < first_looks; ++look) {
    if (is_there()) return;
    relax();
  }
  const Stopwatch waited;
  while (waits_are_short_ && waited.seconds() < short_wait) {
    if (is_there()) return;
    relax();
  }
  // Counting first, then looking again: either this rank sees the new count, or the peer sees a
  // sleeper.
  cell.sleepers.fetch_add(1, std::memory_order_seq_cst);
  std::uint32_t count = cell.arrived.load(std::memory_order_seq_cst);
  const auto& own_end = memory_.cells[static_cast<std::size_t>(rank_)]->has_left;
  bool has_aborted = false, is_lost = false;
  for (int sleeps = 1; !has_reached(count, meetings_) && !has_aborted && !is_lost; ++sleeps) {
    if (!cell.has_left.load(std::memory_order_seq_cst))
      futex_wait(cell.arrived, count, between_looks);
    has_aborted = is_aborted() || own_end.load(std::memory_order_relaxed) != 0;
    is_lost = cell.has_left.load(std::memory_order_seq_cst) != 0 ||
              (sleeps % sleeps_between_looks_at_process == 0 && is_gone(cell));
    // Read last: meetings that it came to before it left count.
    count = cell.arrived.load(std::memory_order_seq_cst);
  }
  cell.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  waits_are_short_ = has_processors_ && waited.seconds() < short_wait;
  if (has_reached(count, meetings_)) return;
  // A rank that left because the group is broken is not the reason.
  if (has_aborted || is_aborted()) throw_aborted();
  give_up(cell);
}

void NodeGroup::throw_aborted() const {
  const auto reason = reason_of_abort();
  throw BrokenGroupError(
      fmt::format("comm: another rank gave up, so a collective can't be completed{}{}",
                  reason.empty() ? "" : ": ", reason),
      reason);
}

void NodeGroup::give_up(const RankCell& missing) const {
  const bool has_left = missing.has_left.load(std::memory_order_seq_cst) != 0;
  const auto why = fmt::format("rank {} {}", missing.job_rank, reason_of_absence(missing));
  const auto message = fmt::format("comm: {} can't be completed, because {}",
                                   announcement(rank_).call.describe(), why);
  if (has_left) throw CommunicationError(message);
  throw BrokenGroupError(message, why);
}

}  // namespace kolo
