#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/shared_memory/node_group.h"
#include "comm/transfers/transfer_line.h"
#include "kolo/base/checked.h"

namespace kolo {

// Note of one rank to another: a transfer that it has asked for, or a piece of one's bytes, which
// lies in the sender's shared memory.
struct TransferNote {
  CallHeader call;  // Collective::none: it is of a piece
  std::uint32_t slot = 0;
  std::uint64_t number = 0;  // CallHeader::number on the sending rank
  std::uint64_t bytes = 0;
};

// Notes from one rank to another, in memory of the node; written by one and read by the other.
struct NoteRing {
  static constexpr std::uint32_t slots = 32;

  alignas(64) std::atomic<std::uint32_t> written;
  alignas(64) std::atomic<std::uint32_t> taken;
  alignas(64) std::array<TransferNote, slots> notes;

  [[nodiscard]] bool has_room() const {
    return written.load(std::memory_order_relaxed) - taken.load(std::memory_order_acquire) < slots;
  }
  void write(const TransferNote& note) {
    const auto index = written.load(std::memory_order_relaxed);
    notes[index % slots] = note;
    written.store(index + 1, std::memory_order_release);
  }
  // Returns false if there is none. `was_full`: the writer may be waiting for room.
  [[nodiscard]] bool take(TransferNote& note, bool& was_full) {
    const auto index = taken.load(std::memory_order_relaxed);
    const auto there = written.load(std::memory_order_acquire) - index;
    if (there == 0) return false;
    was_full = there == slots;
    note = notes[index % slots];
    taken.store(index + 1, std::memory_order_release);
    return true;
  }
};

// A rank's part of the node's memory for transfers, zero-filled at first: its bell, a ring for the
// notes of each rank of the node, and slots through which it sends bytes in pieces.
class NodeMailbox {
 public:
  static constexpr std::size_t slots = 8;

  // `staging_bytes`: of the rank, for collectives; all slots together are a quarter of it.
  NodeMailbox(std::byte* memory, int ranks, std::size_t staging_bytes)
      : memory_(memory),
        ranks_(static_cast<std::size_t>(ranks)),
        slot_bytes_(slot_bytes_of(staging_bytes)) {}
  [[nodiscard]] static std::size_t bytes_for(int ranks, std::size_t staging_bytes) {
    return sizeof(Bell) + checked_multiply(static_cast<std::size_t>(ranks), sizeof(NoteRing)) +
           flags_bytes + slots * slot_bytes_of(staging_bytes);
  }

  [[nodiscard]] Bell& bell() const { return *reinterpret_cast<Bell*>(memory_); }
  [[nodiscard]] NoteRing& ring_from(int local_rank) const {
    return reinterpret_cast<NoteRing*>(memory_ + sizeof(Bell))[local_rank];
  }
  // Whether the slot holds bytes that have not been taken.
  [[nodiscard]] std::atomic<std::uint32_t>& is_full(std::size_t slot) const {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(flags())[slot];
  }
  [[nodiscard]] std::byte* slot(std::size_t slot) const {
    return flags() + flags_bytes + slot * slot_bytes_;
  }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }

 private:
  static constexpr std::size_t flags_bytes = 64;
  static_assert(slots * sizeof(std::atomic<std::uint32_t>) <= flags_bytes);

  [[nodiscard]] static std::size_t slot_bytes_of(std::size_t staging_bytes) {
    return std::max<std::size_t>(staging_bytes / 4 / slots / 64 * 64, 64);
  }
  [[nodiscard]] std::byte* flags() const {
    return memory_ + sizeof(Bell) + ranks_ * sizeof(NoteRing);
  }

  std::byte* memory_;
  std::size_t ranks_;
  std::size_t slot_bytes_;
};

// Memory that a NodeLine uses, by local rank.
struct NodeLineMemory {
  std::vector<NodeMailbox> mailboxes;
  std::vector<std::shared_ptr<Bell>> bells;  // one a rank, for all its groups
  std::vector<int> ranks;                    // in the group
  NodeMemory control;  // who has left, and whether somebody gave up; keeps all of it mapped
};

// Line between ranks that share memory. Bytes go in pieces through slots of the sender's.
class NodeLine final : public TransferLine {
 public:
  NodeLine(int local_rank, NodeLineMemory memory);

  void post(int to, const CallHeader& call) override { send(local(to), {.call = call}); }
  [[nodiscard]] std::optional<Arrival> take() override;
  [[nodiscard]] std::unique_ptr<TransferMove> begin(const CollectiveCall& call,
                                                    const CallHeader& other) override;
  [[nodiscard]] std::string obstacle(int rank) override;
  [[nodiscard]] bool is_silent() const override { return false; }

 private:
  class Sending;
  class Receiving;
  using Id = std::pair<int, std::uint64_t>;  // the sender's local rank, and its number there

  [[nodiscard]] int local(int rank) const;
  [[nodiscard]] const NodeMailbox& mailbox(int local_rank) const {
    return memory_.mailboxes[static_cast<std::size_t>(local_rank)];
  }
  void ring(int local_rank) const { memory_.bells[static_cast<std::size_t>(local_rank)]->ring(); }
  // Whether a note would go into the ring at once.
  [[nodiscard]] bool has_room(int local_rank) const;
  void send(int local_rank, const TransferNote& note);
  void send_waiting(int local_rank);
  void take_piece(int local_rank, const TransferNote& piece);

  const int local_rank_;
  const NodeLineMemory memory_;
  std::vector<std::deque<TransferNote>> waiting_;  // for room, by local rank
  std::map<Id, std::deque<TransferNote>> pieces_;  // arrived, of what is being received
  std::chrono::steady_clock::time_point next_look_at_processes_;
  std::vector<bool> is_gone_;  // by local rank
};

}  // namespace kolo
