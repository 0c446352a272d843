#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "comm/watch/event_block.h"
#include "comm/watch/stall.h"
#include "kolo/comm/backend.h"
#include "kolo/comm/watch.h"

namespace kolo {

// Watches, as long as it lives, over a rank's waiting in initialize(), where there is no watch yet:
// says that it waits after the warning time, twice that, and so on, and when it went on after all.
class StartWatch {
 public:
  // `who`: "rank 0 of 2". Warns after a minute at the latest, unless warnings are off: a long
  // warning time is for ranks that compute between their calls, and they begin together. Ends the
  // process at the limit.
  StartWatch(const WatchOptions& options, std::string who);
  ~StartWatch();

 private:
  void loop(const std::stop_token& stop);

  WatchOptions options_;
  std::string who_;
  bool has_told_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // the last: it uses all of the above
};

// See kolo/comm/watch.h. Made on all ranks together; its thread ends with it.
class Watch final {
 public:
  Watch(std::shared_ptr<Backend> backend, WatchOptions options);
  ~Watch();

  // Ends its thread, and tells the others that this rank has left, as the destructor does
  // otherwise. Only ranks that share memory with this one learn of it where MPI can't be called any
  // more.
  void stop(bool may_send = true);

  // Listener that records calls for the watch, and keeps it.
  [[nodiscard]] static std::shared_ptr<CollectiveListener> listener_of(
      const std::shared_ptr<Watch>& watch) {
    return {watch, watch->recorder_.get()};
  }

 private:
  struct Told {
    Stall stall;
    std::int64_t next = 0;  // nanoseconds of waiting at which it is told again
  };
  struct Heard {
    RankStatus status;
    std::int64_t at = 0;
  };

  void loop(const std::stop_token& stop);
  void say_goodbye();
  void end_if_nobody_can_go_on(const std::vector<RankStatus>& statuses, bool speaks);
  void give_up(const std::string& reason, int exit_status = 1);
  [[nodiscard]] std::string what_ends() const;
  void look();
  void tell_of_killed_neighbour();
  [[nodiscard]] std::vector<RankStatus> look_at_node();
  void exchange(const std::vector<RankStatus>& of_node);
  void report(const std::vector<RankStatus>& statuses);
  void report_end(const std::vector<RankStatus>& statuses);
  // `waited`: nanoseconds, by this rank.
  void end_job(std::int64_t waited);
  void dump(const std::vector<RankStatus>& of_node);
  [[nodiscard]] bool is_first_alive(const std::vector<RankStatus>& of_node) const;
  [[nodiscard]] bool is_speaker(const std::vector<RankStatus>& of_node) const;
  [[nodiscard]] bool can_read(int rank) const;

  std::shared_ptr<Backend> backend_;
  WatchOptions options_;
  std::chrono::nanoseconds interval_;
  std::int64_t warning_;
  std::int64_t limit_;
  std::int64_t silence_;  // after which a watch counts as dead
  WaitingTimes waiting_times_;

  std::vector<std::shared_ptr<EventBlock>> blocks_;  // those that this rank can read
  std::vector<int> ranks_of_blocks_;
  std::size_t own_block_ = 0;
  std::unique_ptr<FlightRecorder> recorder_;
  std::unique_ptr<StatusExchange> exchange_;  // none: nothing is known of other nodes
  int deputy_ = -1;  // who speaks when rank 0 can't: the first whose block is not with rank 0's

  std::map<int, Heard> heard_;          // from other nodes, by rank
  std::map<std::uint64_t, Told> told_;  // stalls, by group
  bool has_dumped_ = false;
  bool has_told_end_ = false;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace kolo
