#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "comm/mpi/mpi_collectives.h"
#include "comm/mpi/mpi_runtime.h"
#include "comm/mpi/mpi_status_exchange.h"
#include "comm/mpi/shared_windows.h"

namespace kolo {

// What a set of ranks has from MPI. Destroyed from the bottom up: what uses a communicator goes
// before it.
struct MpiObjects {
  MpiGroup all;
  MpiGroup node;      // the ranks of this node
  MpiGroup across;    // those of all nodes that own this rank's slice; empty for a rank without one
  MpiGroup statuses;  // all, for the watch's messages
  MpiStatusMessages status_messages;
  std::optional<MpiCollectives> all_collectives;
  std::optional<MpiCollectives> across_collectives;
  std::unique_ptr<SharedWindows> windows;
};

// Keeps the objects of all sets of ranks of a job until the last communicator, and the last memory
// allocated with one, is gone. Freeing is collective, and a set's handles go on each rank when its
// program likes; at the end of the job everybody frees everything, in the order in which it was
// made, which is the same on all ranks.
class MpiKeeping {
 public:
  explicit MpiKeeping(std::shared_ptr<const MpiRuntime> runtime) : runtime_(std::move(runtime)) {}
  MpiKeeping(const MpiKeeping&) = delete;
  MpiKeeping& operator=(const MpiKeeping&) = delete;
  ~MpiKeeping() {
    while (!kept_.empty()) kept_.pop_front();
  }

  // Objects that stay where they are as long as this does.
  [[nodiscard]] MpiObjects& add(MpiGroup all) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::make_unique<MpiObjects>());
    kept_.back()->all = std::move(all);
    return *kept_.back();
  }

  [[nodiscard]] const std::shared_ptr<const MpiRuntime>& runtime() const { return runtime_; }

 private:
  std::shared_ptr<const MpiRuntime> runtime_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<MpiObjects>> kept_;
};

}  // namespace kolo
