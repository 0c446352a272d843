#include "comm/watch/watch.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/messages.h"

namespace kolo {

namespace {

using std::chrono::nanoseconds;
using Seconds = std::chrono::duration<double>;

constexpr Seconds longest_silence_at_start{60};

// Shortest waits, in nanoseconds, that count: for a rank that has left, because much happens
// between two looks; for each other, because knowledge of another node is older; for a killed one.
constexpr std::int64_t least_wait = 700'000'000;
constexpr std::int64_t least_deadlock = 2'000'000'000;
constexpr std::int64_t least_wait_for_killed = 50'000'000;

// Time between two looks at a neighbour: the others have a second to tell of a killed rank before
// its launcher ends them as well.
constexpr std::chrono::milliseconds longest_glance{200};

nanoseconds interval_for(const WatchOptions& options) {
  Seconds shortest{4};
  for (const auto time : {options.warning, options.limit}) {
    if (time.count() > 0) shortest = std::min(shortest, time);
  }
  return std::max<nanoseconds>(std::chrono::milliseconds(5),
                               std::chrono::duration_cast<nanoseconds>(shortest / 4));
}

std::int64_t nanoseconds_of(Seconds time) {
  return std::chrono::duration_cast<nanoseconds>(time).count();
}

// Shortens a status to a message so small that MPI sends it without the other side's help: first
// come the lane of the job's communicator, then sets that the rank waits in or has joined, then
// those that it has left.
RankStatus in_short(RankStatus status) {
  constexpr std::size_t most_lanes = 8;
  std::ranges::stable_sort(status.lanes, std::greater(), [](const LaneStatus& lane) {
    return Lane::group_of(lane.identity) == 1      ? 3
           : lane.waiting != 0 || lane.joined != 0 ? 2
                                                   : static_cast<int>(lane.has_left);
  });
  if (status.lanes.size() > most_lanes) status.lanes.resize(most_lanes);
  return status;
}

// First rank whose block rank 0 can't read; -1: it can read all.
int find_deputy(const Topology& topology, bool is_shared) {
  for (int rank = 1; rank < topology.size; ++rank) {
    const bool is_near =
        topology.node_of_rank[static_cast<std::size_t>(rank)] == topology.node_of_rank[0];
    if (!is_shared || !is_near) return rank;
  }
  return -1;
}

}  // namespace

void tell(const WatchOptions& options, const std::string& message) {
  if (options.report) return options.report(message);
  print_line(message);
}

StartWatch::StartWatch(const WatchOptions& options, std::string who)
    : options_(options), who_(std::move(who)) {
  if (options_.enabled && (options_.warning.count() > 0 || options_.limit.count() > 0))
    thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

StartWatch::~StartWatch() {
  if (!thread_.request_stop()) return;
  thread_.join();
  if (!has_told_) return;
  const Seconds waited = std::chrono::steady_clock::now() - begin_;
  tell(options_,
       fmt::format("watch: {}: initialization went on after {:.1f} s", who_, waited.count()));
}

void StartWatch::loop(const std::stop_token& stop) {
  constexpr Seconds never{1e9};
  const Seconds limit = options_.limit.count() > 0 ? options_.limit : never;
  Seconds warning =
      options_.warning.count() > 0 ? std::min(options_.warning, longest_silence_at_start) : never;
  std::unique_lock lock(mutex_);
  while (true) {
    const Seconds next = std::min(warning, limit);
    const auto end = begin_ + std::chrono::duration_cast<nanoseconds>(next);
    if (changed_.wait_until(lock, stop, end, [&] { return stop.stop_requested(); })) return;
    const auto text = fmt::format(
        "watch: {} has waited {:.1f} s in kolo::initialize() for other ranks: all of them have to "
        "call it, and some have not come to it yet, or have ended before",
        who_, Seconds(std::chrono::steady_clock::now() - begin_).count());
    has_told_ = true;
    if (next >= limit) {
      tell(options_,
           fmt::format("{}; the limit is {:.4g} s, and the job ends", text, limit.count()));
      ::_exit(1);
    }
    tell(options_, text);
    warning *= 2;
  }
}

Watch::Watch(std::shared_ptr<Backend> backend, WatchOptions options)
    : backend_(std::move(backend)),
      options_(std::move(options)),
      interval_(interval_for(options_)),
      warning_(nanoseconds_of(options_.warning)),
      limit_(nanoseconds_of(options_.limit)),
      silence_(std::max<std::int64_t>(4 * interval_.count(), 1'000'000'000)),
      waiting_times_(2 * interval_.count()),
      exchange_(backend_->status_exchange()) {
  const Topology& topology = backend_->topology();
  for (const auto& part :
       backend_->allocate(CollectiveCall::of(Collective::allocate_shared, sizeof(EventBlock))))
    blocks_.emplace_back(part, reinterpret_cast<EventBlock*>(part.get()));
  const bool is_shared = !blocks_.empty();
  if (!is_shared) blocks_.push_back(std::make_shared<EventBlock>());
  deputy_ = find_deputy(topology, is_shared);
  ranks_of_blocks_ = is_shared ? topology.ranks_on_node() : std::vector{topology.rank};
  own_block_ = static_cast<std::size_t>(std::ranges::find(ranks_of_blocks_, topology.rank) -
                                        ranks_of_blocks_.begin());
  recorder_ = std::make_unique<FlightRecorder>(blocks_[own_block_]);
  recorder_->on_group({});
  backend_->execute(CollectiveCall::of(Collective::barrier));  // every block is in use
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

Watch::~Watch() {
  stop();
}

void Watch::stop(bool may_send) {
  if (!thread_.request_stop()) return;
  thread_.join();
  blocks_[own_block_]->beat.store(EventBlock::has_left);
  if (exchange_ && may_send) say_goodbye();
}

// Tells the ranks that speak, and the next rank, so that one that goes on hears of it whoever has
// left before. The ranks that share this one's memory see it.
void Watch::say_goodbye() {
  const Topology& topology = backend_->topology();
  const auto bytes = to_bytes(in_short(read_status(topology.rank, *blocks_[own_block_], silence_)));
  std::set<int> listeners = {0, deputy_, (topology.rank + 1) % topology.size};
  listeners.erase(-1);
  for (const int to : listeners) {
    if (!can_read(to)) exchange_->send(to, bytes);
  }
}

void Watch::loop(const std::stop_token& stop) {
  const auto step = std::min<nanoseconds>(interval_, longest_glance);
  auto next_look = std::chrono::steady_clock::now() + interval_;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, stop, step, [&] { return stop.stop_requested(); })) {
    lock.unlock();
    if (std::chrono::steady_clock::now() >= next_look) {
      look();
      next_look = std::chrono::steady_clock::now() + interval_;
    }
    tell_of_killed_neighbour();
    lock.lock();
  }
}

// Each rank looks at the next one of its node.
void Watch::tell_of_killed_neighbour() {
  if (has_told_end_ || blocks_.size() < 2 || backend_->is_broken()) return;
  const auto next = (own_block_ + 1) % blocks_.size();
  const auto neighbour = read_status(ranks_of_blocks_[next], *blocks_[next], silence_);
  const bool is_killed = neighbour.state == ProcessState::gone && !neighbour.has_left &&
                         !neighbour.says_why && !neighbour.is_ending();
  if (!is_killed) return;
  // A rank for which nobody waits may end without letting go of its communicator.
  const auto mine = read_status(backend_->topology().rank, *blocks_[own_block_], silence_);
  if (mine.longest_wait() < least_wait_for_killed) return;
  const auto reason = fmt::format(
      "rank {} is gone: its process {} has ended without a word: it was killed (for memory, as a "
      "rule), has crashed, or has ended by itself, with exit() or at the end of main()",
      neighbour.rank, neighbour.process);
  tell(options_, fmt::format("watch: {}; {}", reason, what_ends()));
  has_told_end_ = true;
  give_up(reason, 128 + SIGKILL);  // as the launcher's, which may see it first
}

void Watch::look() {
  const auto now = monotonic_now();
  blocks_[own_block_]->beat.store(now);
  waiting_times_.look(now);
  const auto of_node = look_at_node();
  if (exchange_) exchange(of_node);
  if (backend_->is_broken()) return;  // there is nothing to wait for any more
  if (std::ranges::any_of(of_node, &RankStatus::is_ending)) dump(of_node);
  auto statuses = of_node;
  for (const auto& [rank, heard] : heard_) statuses.push_back(heard.status);
  if (is_speaker(of_node)) {
    report(statuses);
    report_end(statuses);
  }
  end_if_nobody_can_go_on(statuses, is_speaker(of_node));
  const auto waited = of_node[own_block_].longest_wait();
  if (limit_ > 0 && waited >= limit_) end_job(waited);
}

std::vector<RankStatus> Watch::look_at_node() {
  std::vector<RankStatus> statuses;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    statuses.push_back(read_status(ranks_of_blocks_[i], *blocks_[i], silence_));
    waiting_times_.correct(statuses.back());
  }
  return statuses;
}

bool Watch::can_read(int rank) const {
  return std::ranges::find(ranks_of_blocks_, rank) != ranks_of_blocks_.end();
}

bool Watch::is_first_alive(const std::vector<RankStatus>& of_node) const {
  const auto first = std::ranges::find_if(of_node, &RankStatus::is_watching);
  return first == of_node.end() || first->rank == ranks_of_blocks_[own_block_];
}

// The lowest rank whose watch is alive speaks for all blocks that are read here: to rank 0 and its
// deputy where there are several nodes, and one of these speaks to people.
bool Watch::is_speaker(const std::vector<RankStatus>& of_node) const {
  if (!is_first_alive(of_node)) return false;
  if (!exchange_ || can_read(0)) return true;
  if (deputy_ < 0 || !can_read(deputy_)) return false;
  const auto heard = heard_.find(0);
  return heard == heard_.end() || heard->second.status.has_left ||
         monotonic_now() - heard->second.at > silence_;
}

void Watch::exchange(const std::vector<RankStatus>& of_node) {
  const auto now = monotonic_now();
  while (const auto message = exchange_->receive()) {
    if (message->bytes.empty()) dump(of_node);  // an order, from where the limit has passed
    if (auto status = from_bytes(message->bytes)) {
      Heard& heard = heard_[status->rank];
      heard.at = now;
      // A rank's own goodbye may overtake an older status, which another rank has sent.
      if (!heard.status.has_left) heard.status = std::move(*status);
    }
  }
  for (auto& [rank, heard] : heard_) {
    heard.status.age = now - heard.at;
    if (heard.status.age >= silence_) heard.status.is_watching = false;
  }
  if (!is_first_alive(of_node)) return;
  for (const RankStatus& status : of_node) {
    const auto bytes = to_bytes(in_short(status));
    for (const int to : {0, deputy_}) {
      if (to >= 0 && !can_read(to)) exchange_->send(to, bytes);
    }
  }
}

void Watch::report(const std::vector<RankStatus>& statuses) {
  if (warning_ <= 0) return;
  const auto stalls = find_stalls(statuses, backend_->topology().size, warning_);
  for (const Stall& stall : stalls) {
    Told& told = told_[stall.group];
    if (told.stall.position != stall.position) told = {stall, warning_};
    told.stall.waiting = std::max(told.stall.waiting, stall.waiting);
    if (stall.waiting < told.next) continue;
    tell(options_, stall.report);
    told.next = 2 * std::max(told.next, stall.waiting / 2 + 1);
  }
  std::erase_if(told_, [&](const auto& entry) {
    const Stall& before = entry.second.stall;
    const bool goes_on = std::ranges::any_of(stalls, [&](const Stall& stall) {
      return stall.group == before.group && stall.position == before.position;
    });
    if (!goes_on) {
      tell(options_, fmt::format("watch: {} went on after {:.1f} s", before.collective,
                                 static_cast<double>(before.waiting) * 1e-9));
    }
    return !goes_on;
  });
}

// Ends the job at once where this rank speaks, a little later otherwise: the others may know more
// than a speaker that has left or is gone.
void Watch::end_if_nobody_can_go_on(const std::vector<RankStatus>& statuses, bool speaks) {
  if (has_told_end_) return;
  const auto patience = speaks ? 0 : silence_;
  auto waiting_for_nothing = find_departure(statuses, least_wait + patience);
  if (!waiting_for_nothing)
    waiting_for_nothing = find_deadlock(statuses, least_deadlock + patience);
  if (!waiting_for_nothing) return;
  tell(options_, fmt::format("watch: {}; {}", *waiting_for_nothing, what_ends()));
  give_up(*waiting_for_nothing);
  has_told_end_ = true;
}

// Writes this rank's file and, if it speaks for its node, those of ranks that can't write.
void Watch::dump(const std::vector<RankStatus>& of_node) {
  if (has_dumped_) return;
  has_dumped_ = true;
  const bool is_first = is_first_alive(of_node);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (i != own_block_ && (!is_first || of_node[i].is_watching)) continue;
    try {
      dump_events(options_.folder, of_node[i], *blocks_[i]);
    } catch (const std::exception& error) {
      tell(options_, fmt::format("watch: {}", error.what()));
    }
  }
}

void Watch::report_end(const std::vector<RankStatus>& statuses) {
  const auto ending = std::ranges::find_if(statuses, &RankStatus::is_ending);
  if (has_told_end_ || ending == statuses.end()) return;
  has_told_end_ = true;
  const auto folder = options_.folder.empty() ? std::filesystem::path(".") : options_.folder;
  tell(options_, fmt::format("watch: rank {} has waited {:.1f} s, and the limit is {:.4g} s; the "
                             "ranks' last collectives "
                             "are in {}/kolo-watch-rank-*.txt, and {}",
                             ending->rank, static_cast<double>(ending->waited_at_end) * 1e-9,
                             options_.limit.count(), folder.string(), what_ends()));
}

void Watch::end_job(std::int64_t waited) {
  const Topology& topology = backend_->topology();
  blocks_[own_block_]->waited_at_end = waited;
  const auto of_node = look_at_node();
  if (exchange_) {
    for (int rank = 0; rank < topology.size; ++rank) {
      if (!can_read(rank)) exchange_->send(rank, {});
    }
  }
  if (is_speaker(of_node)) report_end(of_node);
  dump(of_node);
  // The others look within two intervals, and write theirs.
  const auto others_are_done =
      std::chrono::steady_clock::now() + 3 * interval_ + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < others_are_done) {
    std::this_thread::sleep_for(interval_);
    blocks_[own_block_]->beat.store(monotonic_now());
    const auto now_of_node = look_at_node();
    if (exchange_) exchange(now_of_node);
  }
  give_up(fmt::format("rank {} has waited {:.1f} s, and the watch's limit is {:.4g} s",
                      topology.rank, static_cast<double>(waited) * 1e-9, options_.limit.count()));
  limit_ = 0;  // ranks that are threads are told once
}

std::string Watch::what_ends() const {
  const bool is_thread = backend_->capabilities().backend == "threads";
  return is_thread || backend_->ends_processes() ? "the job ends" : "the session is broken";
}

void Watch::give_up(const std::string& reason, int exit_status) {
  if (backend_->ends_processes()) {
    // A stopped process reacts to nothing else; and ending the job may itself hang.
    for (const RankStatus& status : look_at_node()) {
      if (status.state == ProcessState::stopped) ::kill(status.process, SIGKILL);
    }
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::seconds(10));
      ::kill(::getpid(), SIGKILL);
    }).detach();
  }
  backend_->abort(exit_status, reason);
}

}  // namespace kolo
