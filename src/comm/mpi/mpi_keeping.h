#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "comm/mpi/mpi_collectives.h"
#include "comm/mpi/mpi_group.h"
#include "comm/shared_memory/node_group.h"
#include "kolo/comm/backend.h"
#include "kolo/comm/mpi.h"

namespace kolo {

// MPI, initialized: by this object, which then also finalizes it, or before.
class MpiRuntime {
 public:
  explicit MpiRuntime(ThreadLevel wanted);
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;
  // MPI_Finalize, where this object has initialized MPI. Not so while an exception that arose after
  // construction unwinds the stack: the other ranks don't come to it. Without MPI_Finalize the
  // launcher sees a failed process and ends the job, which is what an exception should lead to.
  ~MpiRuntime();

  [[nodiscard]] ThreadLevel granted() const { return granted_; }
  [[nodiscard]] bool is_owner() const { return is_owner_; }

 private:
  ThreadLevel granted_ = ThreadLevel::single;
  bool is_owner_ = false;
  int exceptions_at_start_;
};

// Small messages that MPI has been given and may still read.
struct MpiSmallMessages {
  struct Message {
    int to = 0;
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::list<Message> pending;
};

// What a set of ranks has from MPI.
struct MpiObjects {
  MpiGroup all;
  MpiGroup node;      // the ranks of this node
  MpiGroup across;    // those of all nodes that own this rank's slice; empty for a rank without one
  MpiGroup statuses;  // all, for the watch's messages
  MpiSmallMessages status_messages;
  MpiSmallMessages notes;  // of transfers
  std::optional<MpiCollectives> all_collectives;
  std::optional<MpiCollectives> across_collectives;
  std::weak_ptr<NodeGroup> node_group;  // as long as this rank has a communicator of the set

  void free();
};

// What threads may do with MPI in this job.
struct MpiThreads {
  ThreadLevel level = ThreadLevel::single;  // the lowest of all ranks
  // Threads of kolo's own may call MPI. With `serialized` only where kolo itself has initialized
  // it: a program that did so may call MPI at any time, and calls must not meet.
  bool may_call = false;
};

// Keeps the objects of all sets of ranks of a job, and frees them where all ranks agree that it is
// the end: in MPI_Finalize, by whomever it is called. Freeing is collective, and handles go on each
// rank when its program likes. MPI itself holds a share, so that is so whether handles are left by
// then or not; if they are, every later call is an Error.
class MpiKeeping {
 public:
  [[nodiscard]] static std::shared_ptr<MpiKeeping> make(const MpiThreads& threads);

  explicit MpiKeeping(const MpiThreads& threads) : threads_(threads) {}
  MpiKeeping(const MpiKeeping&) = delete;
  MpiKeeping& operator=(const MpiKeeping&) = delete;
  ~MpiKeeping() = default;

  // Objects that stay where they are as long as this does.
  [[nodiscard]] MpiObjects& add(MpiGroup all);
  [[nodiscard]] const MpiThreads& threads() const { return threads_; }

  // What is to be done before MPI ends, in this order, while all of it still works.
  void before_end(std::function<void()> action) { before_end_.push_back(std::move(action)); }
  void end() noexcept;

  // Ends all processes of the job, or where MPI can't be asked to, this one, which its launcher
  // takes for a failure of the job. From any thread.
  void abort(int exit_code) const noexcept;

 private:
  [[nodiscard]] bool this_thread_may_call() const;

  MpiThreads threads_;
  std::thread::id initialising_thread_ = std::this_thread::get_id();
  std::atomic<bool> has_ended_ = false;
  std::vector<std::function<void()>> before_end_;
  std::mutex mutex_;
  std::deque<MpiObjects> kept_;
};

// Ranks as processes of an MPI job. On one node everything goes through shared memory; over
// several, all-reduce uses it inside each node and MPI between the ranks that own the same slice,
// and the other collectives are MPI's.
//
// The ranks of a group; node_id is equal for ranks on the same node and different otherwise.
// Collective.
[[nodiscard]] std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<const MpiRuntime> runtime,
                                                        std::shared_ptr<MpiKeeping> keeping,
                                                        MpiGroup group, int node_id,
                                                        const MpiOptions& options);

}  // namespace kolo
