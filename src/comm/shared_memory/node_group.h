#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/base/error.h"
#include "kolo/comm/collective_call.h"

namespace kolo {

// A location in memory that means the same to all ranks of a node.
struct SharedLocation {
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;
};

// How the ranks of a node reach each other's memory.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;

  // Location of this rank's own memory for the others; nothing when they can't reach all of it.
  // From any thread.
  [[nodiscard]] virtual std::optional<SharedLocation> locate(const void* data,
                                                             std::size_t bytes) const = 0;

  // A local rank's location as an address of this process.
  [[nodiscard]] virtual std::byte* address(int local_rank, SharedLocation location) const = 0;
};

// Futexes on a word that several processes map (without FUTEX_PRIVATE_FLAG); std::atomic::wait
// works only inside one process.

// Sleeps while `word` holds `value`, at most `limit`; may wake without reason.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds limit);

void futex_wake_all(std::atomic<std::uint32_t>& word);

// Between two looks at a word, before going to sleep on it.
void relax();

// Bell that wakes the thread for a rank's transfers. It lies in memory that the ranks of the node
// map, zero-filled at first; one for all groups of a rank, since a thread sleeps on one word.
struct alignas(64) Bell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleepers;

  // Sequentially consistent on both sides: either the sleeper sees the new count, or this rank sees
  // the sleeper.
  void ring() {
    rings.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(rings);
  }

  // Sleeps until it rings after it had rung `heard` times, at most `limit`.
  void sleep(std::uint32_t heard, std::chrono::nanoseconds limit) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    if (rings.load(std::memory_order_seq_cst) == heard) futex_wait(rings, heard, limit);
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
};

// The words through which the ranks of a node meet. They lie in memory that all of them map,
// zero-filled at first; every rank writes only its own cell.

// Call that a rank is about to make: published before the others touch its memory, and compared by
// all of them.
struct Announcement {
  CallHeader call;
  SharedLocation location;
  std::uint64_t reachable = 0;  // location is valid
};

struct alignas(64) RankCell {
  std::atomic<std::uint32_t> arrived;   // how many meetings this rank has come to
  std::atomic<std::uint32_t> sleepers;  // ranks asleep until `arrived` changes
  std::atomic<std::uint32_t> has_left;  // this rank comes to no meeting any more
  std::uint32_t verdict;  // of the node's first rank: what it has learnt of the other nodes
  // Identity of the rank, written before the first meeting.
  std::int32_t job_rank = 0;
  std::int32_t process = 0;  // 0: nothing is known of it
  std::uint64_t process_namespace = 0;
  // Two, used in turn: a rank may announce its next collective while a slower one still reads the
  // last.
  Announcement announcements[2];
};

// Tells whether its process has ended, perhaps without a word.
[[nodiscard]] bool is_gone(const RankCell& cell);
// Why a rank that has left, or is gone, comes no more: "has left: ...".
[[nodiscard]] std::string reason_of_absence(const RankCell& cell);

// Zero at first. Once a rank has given up it stays so.
struct alignas(64) AbortCell {
  enum State : std::uint32_t { none, being_written, given_up, state_bits = 3 };
  static constexpr std::size_t most_bytes = 500;
  static constexpr int code_shift = 8;

  std::atomic<std::uint32_t> state;     // and above it the exit code
  std::array<char, most_bytes> reason;  // zero-terminated; empty: none is known

  [[nodiscard]] bool is_given_up() const { return state.load(std::memory_order_acquire) != none; }
  // Keeps the words, cut short, and the exit code of the first who gives up; returns that code.
  int give_up(std::string_view why, int exit_code) noexcept;
  [[nodiscard]] std::string words() const;
};

// Ends a rank's waiting because another gave up, or is gone; the group is of no use any more.
class BrokenGroupError : public CommunicationError {
 public:
  BrokenGroupError(const std::string& message, std::string reason)
      : CommunicationError(message), reason_(std::move(reason)) {}
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free,
              "the cells are shared between processes");

struct NodeGroupOptions {
  std::size_t staging_bytes = std::size_t{1} << 20;  // per rank, both halves together
  std::size_t whole_limit_bytes = 8192;  // all-reduces up to here are done whole by every rank
};

// The memory that a NodeGroup needs, shared by its ranks: control cells and a staging area per
// rank.
struct NodeMemory {
  AbortCell* abort = nullptr;
  std::vector<RankCell*> cells;     // by local rank
  std::vector<std::byte*> staging;  // by local rank; staging_bytes each, 64-byte aligned
  std::shared_ptr<void> owner;      // keeps all of it mapped
};

// Collectives among ranks that share memory. Each rank reduces its slice straight out of the
// others' buffers where it can reach them, and otherwise out of staging areas that are filled and
// emptied in turn. The order of computation doesn't depend on who arrives first: results are the
// same bits on all ranks and in every run.
//
// Ranks meet by counting: everybody announces its arrival at meeting k and waits for all others'
// counts to reach k.
class NodeGroup {
 public:
  // Continues a node's reduction over the other nodes.
  struct AcrossNodes {
    // Reduces a slice's partial results of this node with those of all nodes. Both buffers are the
    // same memory, or `partial` is float32 and `result` of a 16-bit type. Called by the slice's
    // owner only.
    std::function<void(const Buffer& partial, const Buffer& result)> reduce;
    // Tells whether `here` is true on every node. Called by the node's first rank only.
    std::function<bool(bool)> everywhere;
  };

  NodeGroup(int local_rank, NodeMemory memory, std::shared_ptr<const PeerMemory> peers,
            const NodeGroupOptions& options);

  // Does a collective that has buffers, or a barrier, all of whose ranks are here.
  void execute(const CollectiveCall& call);

  // Does the node's part of an all-reduce over several nodes: the buffer is cut into `slices` (at
  // most one for each rank of the node); local rank s reduces slice s and takes it through `across`
  // before all get it. Not for averages of integers. Without `across` all ranks are here.
  void all_reduce(const CollectiveCall& call, int slices, const AcrossNodes* across);

  // A barrier on the way into something that all ranks do together; an Error on all of them if it
  // is not the same.
  void agree(const CallHeader& call);

  // Makes the others' waiting end in CommunicationError. Returns the exit code of the rank that was
  // the first to.
  int abort(std::string_view reason, int exit_code = 1) noexcept {
    return memory_.abort->give_up(reason, exit_code);
  }
  [[nodiscard]] bool is_aborted() const { return memory_.abort->is_given_up(); }
  // Reason of the abort; empty where it isn't known.
  [[nodiscard]] std::string reason_of_abort() const { return memory_.abort->words(); }

  // Announces that this rank comes no more. Whoever waits for it, or ever will, gets a
  // CommunicationError that names it, as for a rank whose process has ended. A wait of this rank's
  // own ends too. Local.
  void leave() noexcept;

 private:
  struct AllReduce;

  void broadcast(const CollectiveCall& call);
  void all_gather(const CollectiveCall& call);
  void all_gather_uneven(const CollectiveCall& call);
  void gather_parts(const CollectiveCall& call, std::span<const std::int64_t> counts);
  void reduce_scatter(const CollectiveCall& call);
  void all_to_all(const CollectiveCall& call);
  void check_same_counts() const;
  [[nodiscard]] std::int64_t check_pairs(DataType type) const;

  void begin(const CallHeader& call, std::optional<SharedLocation> location = {});
  void meet();
  void wait_for(int local_rank);
  [[noreturn]] void give_up(const RankCell& missing) const;
  [[noreturn]] void throw_aborted() const;
  void check_announcements();
  [[nodiscard]] const Announcement& announcement(int local_rank) const {
    return memory_.cells[static_cast<std::size_t>(local_rank)]->announcements[announced_ % 2];
  }
  [[nodiscard]] bool all_reachable() const;
  // Half of a staging area.
  [[nodiscard]] std::size_t half_bytes() const { return options_.staging_bytes / 2 / 64 * 64; }
  [[nodiscard]] std::byte* staged(int local_rank) const {
    return memory_.staging[static_cast<std::size_t>(local_rank)] + half_ % 2 * half_bytes();
  }
  [[nodiscard]] std::int64_t staged_elements(DataType type) const {
    return static_cast<std::int64_t>(half_bytes() / size_of(type));
  }
  [[nodiscard]] std::span<const std::byte* const> sources() const {
    return {operands_.data(), operands_.size()};
  }

  int rank_;
  int size_;
  NodeMemory memory_;
  std::shared_ptr<const PeerMemory> peers_;
  NodeGroupOptions options_;
  bool has_processors_;               // one for each rank
  std::vector<std::byte*> operands_;  // by local rank; what is being reduced
  std::vector<float> partial_;        // results of 16-bit types, on their way to the other nodes
  std::uint32_t meetings_ = 0;
  bool waits_are_short_ = false;  // judged by the last one in which this rank slept
  std::uint32_t half_ = 0;       // of the staging areas, flips at every use
  std::uint32_t announced_ = 0;  // which of the two announcements is current
};

}  // namespace kolo
