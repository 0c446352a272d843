#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/watch/event_block.h"
#include "comm/watch/stall.h"
#include "kolo/comm/backend.h"
#include "kolo/comm/watch.h"

namespace kolo {

// Tells people: to options.report, or on stderr.
void tell(const WatchOptions& options, const std::string& message);

// Says so where a rank waits for the others to come to what makes a communicator: there is no watch
// yet. As long as this lives; after the warning time, after twice that, and so on, and when it went
// on after all.
class StartWatch {
 public:
  // Consequence of the limit.
  enum class AtLimit : std::uint8_t { nothing, process_ends };

  // `who`: "rank 0 of 2". Warns after a minute at the latest, unless warnings are off: ranks that
  // compute for long between their calls begin together.
  StartWatch(const WatchOptions& options, std::string who, AtLimit at_limit);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  ~StartWatch();

 private:
  void loop();

  WatchOptions options_;
  std::string who_;
  AtLimit at_limit_;
  bool has_told_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;  // the last: it uses all of the above
};

// See kolo/comm/watch.h. Made on all ranks together; its thread ends with it.
class Watch final {
 public:
  Watch(std::shared_ptr<Backend> backend, WatchOptions options);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  // Ends its thread, and tells the others that this rank has left. For what must happen while MPI
  // is still there; the destructor does it otherwise. Where MPI can't be called any more only ranks
  // that share memory with this one learn of it.
  void stop(bool may_send = true);

  // The listener that records calls for the watch, and keeps it.
  [[nodiscard]] static std::shared_ptr<CollectiveListener> listener_of(
      const std::shared_ptr<Watch>& watch) {
    return {watch, watch->recorder_.get()};
  }

 private:
  // A stall that has been told.
  struct Told {
    Stall stall;
    std::int64_t next = 0;  // nanoseconds of waiting at which it is told again
  };

  void loop();
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

  std::vector<std::shared_ptr<EventBlock>> blocks_;  // that this rank can read
  std::vector<int> ranks_of_blocks_;
  std::size_t own_block_ = 0;
  std::unique_ptr<FlightRecorder> recorder_;
  std::unique_ptr<StatusExchange> exchange_;  // none: of other nodes nothing is known
  int deputy_ = -1;  // who speaks when rank 0 can't: the first whose block is not with rank 0's

  std::map<int, RankStatus> heard_;  // of other nodes, by rank
  std::map<int, std::int64_t> heard_at_;
  std::map<std::uint64_t, Told> told_;  // by group
  bool has_dumped_ = false;
  bool has_told_end_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace kolo
