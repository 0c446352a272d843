#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/shared_memory/node_group.h"
#include "comm/transfers/transfer_line.h"
#include "comm/weak_list.h"
#include "kolo/comm/work.h"

namespace kolo {

class TransferStaging;
class TransferThread;

// The transfers of one rank in one group. Each end tells the other its calls; the n-th send to a
// rank with a tag belongs to the n-th receive there. Both ends compare the two and come to the same
// end: an Error, or bytes that move. So no bytes arrive that nobody expects.
class TransferDesk final {
 public:
  using Listeners = std::vector<std::shared_ptr<CollectiveListener>>;

  // `line_of_rank`: none for this rank. `thread` drives the transfers; where
  // `is_driven_by_waiters`, waiting threads call go_on() instead.
  TransferDesk(int rank, std::vector<std::shared_ptr<TransferLine>> line_of_rank,
               std::shared_ptr<TransferThread> thread, bool is_driven_by_waiters);

  // CallHeader::number of this rank's next call.
  [[nodiscard]] std::uint64_t next_number() { return ++calls_; }
  // Calls that have been checked, done when all are. `stagings`: of each call, for one on a
  // device's memory. `go_on`, set where is_driven_by_waiters(), and `on_wait`: for Work::State.
  [[nodiscard]] Work post(std::vector<CollectiveCall> calls,
                          std::span<const std::shared_ptr<TransferStaging>> stagings,
                          const Listeners& listeners, const std::shared_ptr<const void>& owner,
                          std::function<void()> go_on, std::function<void(bool begins)> on_wait);
  [[nodiscard]] bool is_driven_by_waiters() const { return is_driven_by_waiters_; }

  // Makes the progress that needs no waiting. Returns whether there was any. By one thread at a
  // time.
  bool go_on() noexcept;
  [[nodiscard]] const std::shared_ptr<TransferThread>& thread() const { return thread_; }
  // How long go_on() may be left uncalled.
  enum class Patience : std::uint8_t {
    nothing,  // there is nothing to do until it rings
    ringing,  // it rings when there is, but who is gone does not
    polling,  // nothing rings when the others come
    moving,   // nor when bytes have moved
  };
  [[nodiscard]] Patience patience() const;
  // Takes the owners of finished transfers. Let go of them outside of this desk's calls: an owner
  // may use the desk as it goes.
  [[nodiscard]] std::vector<std::shared_ptr<const void>> take_done() {
    return std::exchange(done_, {});
  }

  [[nodiscard]] bool is_pending() const;
  // Blocks until nothing is pending. For desks that the thread drives.
  void wait_until_idle();
  // Fails pending transfers, and all later ones, with this message. Nobody may be in go_on().
  void stop(const std::string& message);
  // This rank asks for nothing any more.
  void end() noexcept;

 private:
  struct Pending {
    CollectiveCall call;
    CallHeader other;  // what the other rank has asked for
    std::shared_ptr<TransferStaging> staging;
    // Weak, as they may keep what keeps this desk.
    std::vector<std::weak_ptr<CollectiveListener>> listeners;
    std::shared_ptr<const void> owner;
    std::shared_ptr<Work::State> state;
    std::unique_ptr<TransferMove> move;  // none while it waits for a device
    std::exception_ptr error;            // of one in failed_
  };
  using Item = std::shared_ptr<Pending>;
  // Calls of both ranks that are not matched, for one direction, peer and tag.
  struct Queue {
    std::deque<Item> mine;
    std::deque<CallHeader> theirs;
  };
  using Key = std::tuple<int, std::int32_t, bool>;  // peer, tag, whether this rank sends

  [[nodiscard]] bool try_to_go_on();
  [[nodiscard]] bool take_asked();
  [[nodiscard]] bool take_calls();
  [[nodiscard]] bool move();
  bool go_on_with(const Item& item);
  void finish_moved(const Item& item);
  void match(const Key& key);
  void begin(const Item& item, const CallHeader& other);
  [[nodiscard]] std::map<int, std::string> obstacles() const;
  template <typename ErrorOf>
  void fail(const ErrorOf& error_of);
  void finish(const Item& item, std::exception_ptr error);
  [[nodiscard]] TransferLine& line(int rank) const;
  [[nodiscard]] bool is_used(const TransferLine& line) const;

  const int rank_;
  const std::vector<std::shared_ptr<TransferLine>> line_of_rank_;
  std::vector<TransferLine*> lines_;  // each once
  const std::shared_ptr<TransferThread> thread_;
  const bool is_driven_by_waiters_;

  // Used inside go_on() alone.
  std::map<Key, Queue> queues_;
  std::vector<Item> moving_;
  std::vector<std::shared_ptr<TransferStaging>> on_devices_;  // of transfers that are done
  std::vector<Item> failed_;                                  // that devices are not done with
  std::map<int, int> pending_with_;                           // by rank; none where 0
  std::vector<std::shared_ptr<const void>> done_;             // what finished transfers have kept

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Item> asked_;
  std::size_t pending_ = 0;
  std::string closed_;  // the message; empty: open
  std::atomic<std::uint64_t> calls_ = 0;
};

// The one thread of a process that posts transfers and polls for them, for all groups: with
// several, Open MPI can lock itself up. Started with the first transfer. It never blocks for one,
// so the communication threads, which do, and the transfers don't keep each other waiting.
class TransferThread {
 public:
  // `bells`: one per rank of the job, null for ranks that share no memory with this one. Empty: the
  // thread makes its own bell.
  TransferThread(int job_rank, std::vector<std::shared_ptr<Bell>> bells);
  ~TransferThread() { end_thread(); }

  void start();
  void add(const std::shared_ptr<TransferDesk>& desk) { desks_.add(desk); }
  // The desk is not in use any more when this returns.
  void remove(const TransferDesk& desk);

  void ring() { own_bell_->ring(); }
  [[nodiscard]] std::shared_ptr<Bell> bell_of(int job_rank) const {
    return bells_.empty() ? nullptr : bells_.at(static_cast<std::size_t>(job_rank));
  }

  // Ends the thread. Pending transfers fail with this message, and so do later ones.
  void stop(const std::string& message);

 private:
  void loop();
  void end_thread();
  [[nodiscard]] bool go_round(TransferDesk::Patience& patience);
  void rest(std::uint32_t heard, TransferDesk::Patience patience, int idle_rounds);

  std::vector<std::shared_ptr<Bell>> bells_;
  std::shared_ptr<Bell> own_bell_;
  std::mutex round_;  // held while the thread uses the desks
  WeakList<TransferDesk> desks_;
  std::mutex starting_;
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
};

}  // namespace kolo
