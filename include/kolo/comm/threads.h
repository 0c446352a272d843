#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/comm/watch.h"

namespace kolo {

// Options of ranks that are threads of one process, for tests without a launcher.
struct ThreadRanksOptions {
  std::size_t staging_bytes = std::size_t{1} << 20;  // small ones make buffers take many chunks
  std::size_t whole_limit_bytes = 8192;
  bool direct = true;  // false: everything goes through the staging areas
  DeviceOptions devices;
  WatchOptions watch = {.enabled = false};
  std::vector<int> ranks_on_nodes;  // what the topology shows, for example {2, 1}; empty: one node
};

// Runs `body` on `ranks` threads, each with its own communicator, and waits for all of them. When
// one throws, the others' collectives end in CommunicationError, and its exception is rethrown
// here.
void run_as_threads(int ranks, const std::function<void(const Communicator&)>& body,
                    const ThreadRanksOptions& options = {});

}  // namespace kolo
