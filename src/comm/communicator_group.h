#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "comm/executor.h"
#include "comm/transfers/transfer_desk.h"
#include "kolo/comm/communicator.h"

namespace kolo {

// Part that the handles of one communicator share. Destroyed from the bottom up: pending
// collectives finish before the back end goes.
struct Communicator::Group {
  struct Sequence;
  using Action = std::function<void()>;

  // `the_sequence`: of the group over the same ranks that this one is another view of; none: a new
  // one.
  Group(std::shared_ptr<Backend> the_backend, std::shared_ptr<Executor> the_executor,
        std::shared_ptr<Sequence> the_sequence = nullptr);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  // Check a call, give it its number, and have it done in its turn, between its messages to the
  // listeners: run() before it returns, submit() on the communication thread. An action is done in
  // place of the back end's execute().
  void run(CollectiveCall call, CallOptions options, const Action& action = {});
  Work submit(CollectiveCall call, CallOptions options, Action action = {});
  // Messages to other ranks, in no order with the collectives. Done when all are.
  Work transfer(std::vector<CollectiveCall> calls, const CallOptions& options);

  // Never changed in place: calls keep what they see.
  using Listeners = std::vector<std::shared_ptr<CollectiveListener>>;
  class ListenerList {
   public:
    [[nodiscard]] std::shared_ptr<const Listeners> get() const;
    void set(Listeners changed);

   private:
    mutable std::mutex mutex_;
    std::shared_ptr<const Listeners> listeners_ = std::make_shared<const Listeners>();
  };
  std::shared_ptr<ListenerList> listeners = std::make_shared<ListenerList>();

  // Sets of more than one rank made from this checked group, and those that still have a handle,
  // which a join has to serve.
  void add_set(const std::shared_ptr<Group>& set);
  [[nodiscard]] std::vector<std::shared_ptr<Group>> sets();
  // A join of this set, for one of the communicator that it was made from, until that one is done:
  // after one that ended in an Error it stands for the next.
  std::optional<Work> service;
  // Sets that are served until the join is done, handle or not.
  std::vector<std::shared_ptr<Group>> served;

  std::shared_ptr<Backend> backend;
  std::shared_ptr<Executor> executor;
  // Its place in the job.
  struct Identity {
    std::uint32_t number = 0;    // Communicator::group()
    int job_rank = 0;            // this rank's in the job
    std::vector<int> job_ranks;  // of its members

    void put_into(CallHeader& call) const {
      call.group = number;
      call.first_rank = job_ranks.front();
    }
  };
  Identity identity;

  // Progress of the ranks in what they do together, one for plain and checked handles. This rank
  // leaves when it is destroyed.
  struct Sequence {
    explicit Sequence(std::shared_ptr<Backend> the_ranks)
        : ranks(std::move(the_ranks)), transfers(ranks->transfers()) {}
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;
    ~Sequence() { ranks->leave(); }

    std::shared_ptr<Backend> ranks;
    std::shared_ptr<TransferDesk> transfers;  // may be null
    std::atomic<std::uint64_t> calls = 0;
    std::atomic<std::uint32_t> splits = 0;
    // The task that runs, if any, and how many collectives it has called; for the thread it runs
    // on.
    std::uint64_t task = 0;
    std::uint32_t parts = 0;
  };
  std::shared_ptr<Sequence> sequence;

  // Groups of with_own_order(), over plain and checked handles; kept, to be given out again.
  struct Companions {
    std::mutex mutex;
    std::vector<std::shared_ptr<Group>> groups;

    [[nodiscard]] std::vector<std::shared_ptr<Group>> of_kind(bool is_checked);
  };
  std::shared_ptr<Companions> companions = std::make_shared<Companions>();

 private:
  void require_own_process(const CallHeader& call) const;
  void abandon();
  void prepare(CollectiveCall& call, CallOptions& options);
  void go_on_with_transfers();
  [[nodiscard]] Action as_task(std::uint64_t number, Action task);

  std::mutex mutex_;
  std::vector<std::weak_ptr<Group>> sets_;
  int exceptions_at_start_;
};

}  // namespace kolo
