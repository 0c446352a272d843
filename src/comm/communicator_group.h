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
#include "comm/weak_list.h"
#include "kolo/comm/communicator.h"

namespace kolo {

// State that the handles of one communicator share. Destroyed from the bottom up: pending
// collectives finish before the back end goes.
struct Communicator::Group {
  struct Sequence;
  using Action = std::function<void()>;

  // `the_sequence`: that of a plain group of which this is the checked view; none: a new one.
  Group(std::shared_ptr<Backend> the_backend, std::shared_ptr<Executor> the_executor,
        std::shared_ptr<Sequence> the_sequence = nullptr);
  ~Group();

  // Check a call, give it its number, and do it in its turn, run() before it returns, submit() on
  // the communication thread. An action takes the place of the back end's execute().
  void run(CollectiveCall call, CallOptions options, const Action& action = {});
  Work submit(CollectiveCall call, CallOptions options, Action action = {});
  // Sends and receives messages, in no order with the collectives. Done when all are.
  Work transfer(std::vector<CollectiveCall> calls, const CallOptions& options);

  // Listeners in an immutable list, since calls keep the one that they have begun with.
  using Listeners = std::vector<std::shared_ptr<CollectiveListener>>;
  class ListenerList {
   public:
    [[nodiscard]] std::shared_ptr<const Listeners> get() const {
      const std::lock_guard lock(mutex_);
      return listeners_;
    }
    void set(Listeners changed) {
      auto next = std::make_shared<const Listeners>(std::move(changed));
      const std::lock_guard lock(mutex_);
      listeners_ = std::move(next);
    }

   private:
    mutable std::mutex mutex_;
    std::shared_ptr<const Listeners> listeners_ = std::make_shared<const Listeners>();
  };
  std::shared_ptr<ListenerList> listeners = std::make_shared<ListenerList>();

  // Sets of several ranks that were made from this checked group and still have a handle: a join
  // has to serve them.
  WeakList<Group> sets;
  // Join of this set on behalf of its communicator's; one that goes on after an Error serves the
  // next join.
  std::optional<Work> service;
  // Sets that are served until the join is done, whether they have handles or not.
  std::vector<std::shared_ptr<Group>> served;

  std::shared_ptr<Backend> backend;
  std::shared_ptr<Executor> executor;
  struct Identity {
    std::uint32_t number = 0;    // Communicator::group()
    int job_rank = 0;            // rank of this process in the job
    std::vector<int> job_ranks;  // members' ranks in the job

    void put_into(CallHeader& call) const {
      call.group = number;
      call.first_rank = job_ranks.front();
    }
  };
  Identity identity;

  // Progress of the ranks in their calls, one for plain and checked handles. This rank leaves when
  // it is destroyed.
  struct Sequence {
    explicit Sequence(std::shared_ptr<Backend> the_ranks)
        : ranks(std::move(the_ranks)), transfers(ranks->transfers()) {}
    ~Sequence() { ranks->leave(); }

    std::shared_ptr<Backend> ranks;
    std::shared_ptr<TransferDesk> transfers;  // may be null
    std::atomic<std::uint64_t> calls = 0;
    std::atomic<std::uint32_t> splits = 0;
    // Number of the task that runs (0: none), and of its calls so far; for the task's thread alone.
    std::uint64_t task = 0;
    std::uint32_t calls_in_task = 0;
  };
  std::shared_ptr<Sequence> sequence;

  // Groups of with_own_order(), plain and checked, which are kept to be given out again.
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

  int exceptions_at_start_;
};

}  // namespace kolo
