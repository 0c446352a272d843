#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/shared_memory/node_control.h"
#include "comm/shared_memory/peer_memory.h"
#include "kolo/comm/data_type.h"

namespace kolo {

struct NodeGroupOptions {
  std::size_t staging_bytes = std::size_t{1} << 20;  // per rank, both halves together
  std::size_t whole_limit_bytes =
      8192;              // an all-reduce up to this size is done whole by every rank
  int spin_count = 300;  // looks at a word before going to sleep on it
};

// The memory that a NodeGroup needs, shared by its ranks: control cells and a staging area a rank.
struct NodeMemory {
  AbortCell* abort = nullptr;
  std::vector<RankCell*> cells;     // by local rank
  std::vector<std::byte*> staging;  // by local rank; staging_bytes each, 64-byte aligned
  std::shared_ptr<void> owner;      // keeps all of it mapped
};

// Collectives among ranks that share memory. Each rank reduces its slice straight out of the
// others' buffers where it can reach them, and otherwise out of staging areas that are filled and
// emptied in turn. What is computed, and in which order, does not depend on who arrives first:
// results are the same bits on all ranks and in every run.
//
// Ranks meet by counting: everybody announces its arrival at meeting k and waits for all others'
// counts to reach k.
class NodeGroup {
 public:
  // How a node's reduction goes on over the other nodes.
  struct AcrossNodes {
    // Reduces a slice's partial results, of this node, to what all nodes' come to. The two are the
    // same memory, or the partial results float32 and the others of a 16-bit type. Called by the
    // slice's owner only.
    std::function<void(const Buffer& partial, const Buffer& result)> reduce;
    // Whether it is so on every node. Called by the node's first rank only.
    std::function<bool(bool)> everywhere;
  };

  NodeGroup(int local_rank, NodeMemory memory, std::shared_ptr<const PeerMemory> peers,
            const NodeGroupOptions& options);

  [[nodiscard]] int local_rank() const { return rank_; }
  [[nodiscard]] int local_size() const { return size_; }

  // An average is that of `divisor` ranks; the others' values are 0.
  void all_reduce(const Buffer& buffer, ReduceOp op, int divisor);

  // The node's part of an all-reduce over several nodes: the buffer is cut into `slices` (at most
  // local_size()), local rank s reduces slice s and takes it through `across` before all ranks of
  // the node get it. Not for averages of integers.
  void all_reduce(const Buffer& buffer, ReduceOp op, int divisor, int slices,
                  const AcrossNodes& across);

  void broadcast(const Buffer& buffer, int root);
  void all_gather(const ConstBuffer& input, const Buffer& output);
  // Input may be this rank's part of output. Counts that differ are an Error on all ranks.
  void all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                         std::span<const std::int64_t> counts);
  void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op, int divisor);
  // Input and output must not overlap. Counts that don't fit each other are an Error on all ranks.
  void all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                  const Buffer& output, std::span<const std::int64_t> receive_counts);
  void barrier();

  // A barrier on the way into something that all ranks do together; an Error on all of them if it
  // is not the same.
  void agree(Collective collective, std::int64_t count);

  // Makes the others' waiting end in CommunicationError.
  void abort() noexcept;

  // This rank comes no more. Whoever waits for it, or ever will, gets CommunicationError that names
  // it; so it does where the rank's process has ended without a word. Local.
  void leave() noexcept;

 private:
  struct Reduction;

  void begin(const Announcement& mine);
  void meet();
  void wait_for(int local_rank);
  [[noreturn]] void give_up(const RankCell& missing) const;
  void check_announcements();
  void check_same_counts() const;
  [[nodiscard]] std::int64_t check_pairs(DataType type) const;
  [[nodiscard]] const Announcement& announcement(int local_rank) const;
  [[nodiscard]] bool all_reachable() const;
  [[nodiscard]] std::byte* staged(int local_rank) const;
  [[nodiscard]] std::int64_t staged_elements(DataType type) const;

  void reduce_in_place(const Buffer& buffer, const Reduction& reduction);
  void reduce_staged(const Buffer& buffer, const Reduction& reduction);
  void reduce_whole(const Buffer& buffer, const Reduction& reduction);
  void reduce_parts(std::int64_t count, DataType type, const Reduction& reduction);
  void reduce_across(const Buffer& result, const Reduction& reduction);
  [[nodiscard]] bool is_everywhere(bool here, const AcrossNodes& across);
  void all_reduce(const Buffer& buffer, const Reduction& reduction);
  void copy_other_slices(std::byte* to, const std::byte* from, std::int64_t count, DataType type,
                         int slices) const;
  [[nodiscard]] std::span<const std::byte* const> sources() const {
    return {parts_.data(), parts_.size()};
  }

  int rank_;
  int size_;
  NodeMemory memory_;
  std::shared_ptr<const PeerMemory> peers_;
  NodeGroupOptions options_;
  std::vector<std::byte*> parts_;  // by local rank; what is being reduced
  std::vector<float> partial_;     // results of 16-bit types, on their way to the other nodes
  std::uint32_t meetings_ = 0;
  std::uint32_t half_ = 0;       // of the staging areas, flips at every use
  std::uint32_t announced_ = 0;  // which of the two announcements is current
};

}  // namespace kolo
