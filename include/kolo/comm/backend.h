#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kolo/comm/data_type.h"
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

  virtual void all_reduce(const Buffer& buffer, ReduceOp op) = 0;
  virtual void broadcast(const Buffer& buffer, int root) = 0;
  virtual void all_gather(const ConstBuffer& input, const Buffer& output) = 0;
  virtual void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op) = 0;
  virtual void barrier() = 0;

  // Memory in which all-reduce needs no copies. Collective. It stays valid until the last handle is
  // gone.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  // Makes every other rank's pending and later collectives fail, or ends their processes.
  virtual void abort(int exit_code) noexcept = 0;
};

}  // namespace kolo
