#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/comm/backend.h"
#include "kolo/comm/mpi.h"

// A job: its options, its communicator, and what has to end before its processes do.
namespace kolo {

class DeviceSharing;
class TransferThread;
class Watch;

// Overrules options by environment variables: see kolo/comm/mpi.h.
[[nodiscard]] MpiOptions with_environment(MpiOptions options);

// Broadcasts rank 0's bytes, before the ranks have a communicator. Collective.
using BroadcastBytes = std::function<void(std::span<std::byte>)>;

// Replaces options that decide which collectives the ranks do, and how, by rank 0's. Collective.
[[nodiscard]] MpiOptions with_options_of_rank_0(const BroadcastBytes& broadcast, MpiOptions own);

// Node of each rank, where consecutive ranks are pretended to be on nodes of these sizes (none: all
// are on one). Error where the nodes hold more or fewer ranks.
[[nodiscard]] std::vector<int> pretended_nodes(int ranks, const std::vector<int>& ranks_on_nodes);

// Owners of the threads that work for a job's communicator, as long as somebody has a handle.
struct BackgroundThreads {
  std::weak_ptr<Executor> executor;
  std::weak_ptr<TransferThread> transfers;
  std::weak_ptr<DeviceSharing> devices;
  std::weak_ptr<Watch> watch;

  // Ends pending collectives, then transfers, and last the watch, which knows of both. Later calls
  // are StateErrors of these words. `may_send`: of Watch::stop(). If one can't be ended, the others
  // are, and then its exception is thrown.
  void end(const std::string& words, bool may_send) const;
};

// Communicator of all ranks of a job; `host` does collectives on the host's memory. Notes in
// `threads` which begin here. Collective.
[[nodiscard]] Communicator make_job_communicator(std::shared_ptr<Backend> host,
                                                 const MpiOptions& options,
                                                 BackgroundThreads& threads);

}  // namespace kolo
