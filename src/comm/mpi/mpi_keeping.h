#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/job.h"
#include "comm/mpi/mpi_calls.h"
#include "comm/mpi/mpi_collectives.h"
#include "comm/mpi/mpi_runtime.h"
#include "comm/shared_memory/node_group.h"
#include "comm/transfers/transfer_line.h"
#include "comm/weak_list.h"
#include "kolo/comm/backend.h"
#include "kolo/comm/communicator.h"
#include "kolo/comm/mpi.h"

namespace kolo {

// Small messages that MPI has taken and may still read.
struct MpiSmallMessages {
  struct Message {
    int to = 0;
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::list<Message> pending;
  std::vector<std::int64_t> sent, received;  // by rank, where they are counted

  void send(const MpiGroup& group, int tag, int to, std::span<const std::byte> bytes);
  // Forgets messages that MPI is done with. Returns how many to a rank are left.
  int forget_sent(int to = -1);
};

// The next message with that tag, if one is there.
[[nodiscard]] std::optional<StatusExchange::Message> take_message(const MpiGroup& group, int tag);

// Tags of MPI's messages in the communicator of a set, in which collectives use 0.
constexpr int tag_of_calls = 1;   // that are transfers
constexpr int tag_of_breaks = 2;  // in that of all ranks
constexpr int first_tag_of_bytes = 3;

// MPI's objects of a set of ranks. They are used again by the next set of the same ranks in the
// same order, when all ranks have let go of this one.
struct MpiObjects {
  MpiGroup all;
  bool is_cut = false;  // there is what belongs between nodes
  MpiGroup across;    // those of all nodes that own this rank's slice; empty for a rank without one
  MpiGroup statuses;  // all, for the watch's messages
  MpiSmallMessages status_messages;
  MpiSmallMessages calls;   // that are transfers
  MpiSmallMessages breaks;  // of a session
  std::optional<MpiCollectives> all_collectives;
  std::optional<MpiCollectives> across_collectives;
  std::vector<int> job_ranks;        // of the set's members, in its order
  std::atomic<bool> is_used = true;  // by this rank

  void free();
  // Leaves the objects to MPI, which can't be called, or may still use them.
  void forget();
};

// Rules for the use of a process's MPI.
struct MpiRules {
  ThreadLevel level = ThreadLevel::single;  // the lowest of all ranks
  // Threads of kolo's own may call MPI: with less, calls must not meet those of the program.
  [[nodiscard]] bool threads_may_call() const { return level == ThreadLevel::multiple; }
  // MPI is the program's: nothing is freed in MPI_Finalize, but by finish(), before it.
  bool is_session = false;
  // A failure ends the job's processes. Otherwise it breaks the session: waiting calls and every
  // later one get a CommunicationError.
  bool failure_ends_processes = true;
  // Communicator for MPI_Abort(), which ends the processes; null: kolo's own, of the job's ranks.
  MPI_Comm aborted = MPI_COMM_NULL;
};

// Keeps the objects of all sets of ranks of a job or a session, and frees them at the end, on all
// ranks together: freeing is collective, but a program's handles go on each rank when it likes. The
// end of a session is finish(); that of kolo's own job is MPI_Finalize, whoever calls it, as MPI
// itself holds a reference to this. Handles that are left get a StateError from every call.
class MpiKeeping {
 public:
  // `job`: all ranks; it is kept from here on.
  [[nodiscard]] static std::shared_ptr<MpiKeeping> make(const MpiGroup& job, const MpiRules& rules);

  MpiKeeping(const MpiGroup& job, const MpiRules& rules);

  [[nodiscard]] MpiObjects& objects_of_all() { return kept_.front(); }
  // The objects stay where they are as long as this does.
  [[nodiscard]] MpiObjects& add(MpiGroup all, std::vector<int> job_ranks);
  // Objects of these ranks in this order, used or not: the oldest first, at most `most_objects`.
  [[nodiscard]] std::vector<MpiObjects*> objects_of(const std::vector<int>& job_ranks);
  static constexpr std::size_t most_objects = 64;

  // Breaking the session ends waiting in it.
  void add(const std::shared_ptr<NodeGroup>& node_group) { node_groups_.add(node_group); }

  [[nodiscard]] const MpiRules& rules() const { return rules_; }
  [[nodiscard]] int job_rank() const { return job_rank_; }

  // Ended when MPI or the session ends.
  [[nodiscard]] BackgroundThreads& background_threads() { return background_threads_; }
  // Ends a session. Collective; a second call does nothing.
  void finish();
  // In MPI_Finalize.
  void end_in_finalize() noexcept;

  // Ends all processes of the job; this one alone where MPI can't be asked to, which its launcher
  // takes for a failure of the job. Or breaks the session. From any thread.
  void give_up(int exit_code, std::string_view reason) noexcept;
  // Does nothing where a failure ends the processes.
  void break_session(std::string_view reason) noexcept;
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  // Whether this session is broken, or has ended.
  [[nodiscard]] bool is_over() const { return is_over_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string reason() const;  // empty: it isn't
  // Throws CommunicationError with the reason, if so.
  void check() const;
  // The same after looking whether other ranks have broken it. For threads that may call MPI.
  void look() {
    hear();
    check();
  }
  void hear();

  // Ranks that share no memory with this one.
  void note_far_ranks(std::vector<int> ranks) { far_ranks_ = std::move(ranks); }
  // Tells those ranks, once, that the session is broken; they hear of it while they wait. For
  // threads that may call MPI.
  void tell_others() noexcept;

 private:
  [[nodiscard]] bool note_end(std::string_view reason) noexcept;
  void end_threads(const char* words) noexcept;
  void look_at_node();
  void listen();
  void leave() noexcept {
    for (const auto& group : node_groups_.present()) group->leave();
  }

  MpiRules rules_;
  MPI_Comm job_;  // of whose ranks an abort is
  int job_rank_;
  int key_ = MPI_KEYVAL_INVALID;  // of the attribute of MPI_COMM_SELF
  std::thread::id initializing_thread_ = std::this_thread::get_id();
  std::atomic<bool> has_ended_ = false;
  std::atomic<bool> is_over_ = false;
  std::vector<int> far_ranks_;
  std::atomic<bool> has_told_ = false;
  std::mutex listening_;
  BackgroundThreads background_threads_;
  mutable std::mutex mutex_;
  std::string reason_;  // why the session is broken; empty: it isn't
  std::deque<MpiObjects> kept_;
  WeakList<NodeGroup> node_groups_;
};

// Line by messages of MPI's, between nodes and where ranks share no memory. Calls have a tag of
// their own and bytes one of their transfer's, so that transfers don't wait for each other.
// `objects` are the group's, kept by the job.
[[nodiscard]] std::shared_ptr<TransferLine> make_mpi_line(MpiObjects& objects,
                                                          std::int64_t largest_count,
                                                          MpiKeeping& keeping);

// The watch's messages, on objects.statuses. The job keeps both: a message to a rank that never
// looks again stays pending, and can be neither awaited nor taken back. Needs the thread level
// `multiple`.
[[nodiscard]] std::unique_ptr<StatusExchange> make_status_exchange(MpiObjects& objects);

// Takes messages that were sent to this rank and are not taken yet, so that nobody finds them in a
// later communicator to which MPI gives the same number. Collective, when nobody sends any more.
void take_last_statuses(MpiObjects& objects);

// Back end of all ranks of `keeping`; node_id is equal for ranks on the same node and different
// otherwise. `runtime`: none where MPI is the program's. Collective.
[[nodiscard]] std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<const MpiRuntime> runtime,
                                                        std::shared_ptr<MpiKeeping> keeping,
                                                        int node_id, const MpiOptions& options);

// A communicator of MPI's ranks, and the keeper of its MPI objects.
struct MpiJob {
  Communicator communicator;
  std::shared_ptr<MpiKeeping> keeping;
};

// Makes the job of all ranks of a group, with rank 0's options where they count on all; the group
// is the job's from here on, also where this throws. `rules`: their level is this rank's, and
// becomes the lowest of all. Collective.
[[nodiscard]] MpiJob make_mpi_job(std::shared_ptr<const MpiRuntime> runtime, const MpiGroup& group,
                                  const MpiOptions& options, MpiRules rules);

}  // namespace kolo
