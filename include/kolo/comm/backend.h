#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/comm/collective_call.h"
#include "kolo/comm/data_type.h"
#include "kolo/comm/status_exchange.h"
#include "kolo/comm/topology.h"

namespace kolo {

// What a back end is and can do, for logs and `kolo doctor`.
struct Capabilities {
  std::string backend;       // "solo", "threads", "mpi"
  std::string transport;     // how the bytes travel, in words
  std::string thread_level;  // what MPI granted; empty elsewhere
  bool asynchronous =
      true;  // false: asynchronous collectives run before their call returns, nothing overlaps
  bool shared_memory = false;  // ranks of a node read each other's memory
  bool concurrent = false;     // collectives of different communicators may run at the same time
};

// One way of talking to the other ranks. Collectives block; a communicator calls them one at a
// time, in the same order on every rank, from its communication thread or its user's thread.
// Arguments have been checked, sizes are at least 2 ranks' worth of agreement only by the caller's
// word: a back end that can compare them across ranks does so and throws.
class Backend {
 public:
  virtual ~Backend() = default;

  [[nodiscard]] virtual const Topology& topology() const = 0;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  // An average is that of `divisor` ranks' values, the others being 0: of all, unless some have
  // joined (Communicator::join()).
  virtual void all_reduce(const Buffer& buffer, ReduceOp op, int divisor) = 0;
  virtual void broadcast(const Buffer& buffer, int root) = 0;
  virtual void all_gather(const ConstBuffer& input, const Buffer& output) = 0;
  // `counts`, by rank, are the same everywhere; output holds their sum, input counts[rank].
  virtual void all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                                 std::span<const std::int64_t> counts) = 0;
  virtual void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op,
                              int divisor) = 0;
  // Both counts by rank; input and output hold the parts one behind another.
  virtual void all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                          const Buffer& output, std::span<const std::int64_t> receive_counts) = 0;
  virtual void barrier() = 0;

  // Memory in which all-reduce needs no copies. Collective. It may outlive this back end.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  // Zero-filled memory, 64-byte aligned, that the ranks of this node share: the part of each, by
  // local rank; nothing where they can't share any (on all ranks then). Collective; the same size
  // everywhere.
  [[nodiscard]] virtual std::vector<std::shared_ptr<std::byte>> allocate_shared(
      std::size_t bytes) = 0;

  // One piece of memory, 64-byte aligned, for all ranks of this node; nothing where they can't
  // share any (on all ranks then). Collective; the same size everywhere.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_for_node(std::size_t bytes) = 0;

  // The group of the ranks that pass the same colour, in the order of (key, rank); nothing for a
  // colour below 0. Collective. It may outlive this one. What it needs of the system may be kept
  // until the job's last group is gone, because giving it back may be collective.
  [[nodiscard]] virtual std::shared_ptr<Backend> split(int color, int key) = 0;

  // Messages beside the collectives, for the watch; nothing where the back end has none.
  // Collective.
  [[nodiscard]] virtual std::unique_ptr<StatusExchange> status_exchange() { return nullptr; }

  // This rank calls nothing here any more: its last handle is gone. Ranks that wait for it, now or
  // later, should get CommunicationError that names it. Local, and not a word to MPI.
  virtual void leave() noexcept {}

  // Makes every other rank's pending and later collectives fail, or ends their processes.
  virtual void abort(int exit_code) noexcept = 0;
};

}  // namespace kolo
