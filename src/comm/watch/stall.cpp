#include "comm/watch/stall.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "comm/messages.h"

namespace kolo {

namespace {

constexpr std::size_t most_ranks_told = 8;  // of those missing, one by one

double seconds(std::int64_t time) {
  return static_cast<double>(time) * 1e-9;
}

// Trouble of a rank; empty: none is known.
std::string trouble_of(const RankStatus& status) {
  switch (status.state) {
    case ProcessState::stopped:
      return fmt::format("its process {} is stopped, kill -CONT lets it go on", status.process);
    case ProcessState::gone:
      return fmt::format("its process {} is gone", status.process);
    default:
      if (status.has_left) return "it has given up its communicator";
      return status.is_watching ? std::string() : "its watch is silent";
  }
}

// Names a wait of the rank in another group than this one; may be empty.
std::string describe_elsewhere(const RankStatus& status, const LaneStatus& here) {
  for (const LaneStatus& lane : status.lanes) {
    if (lane.identity == here.identity || lane.running.number == 0) continue;
    return fmt::format(", and waits in {}{}", lane.running.describe(),
                       Lane::is_of_transfer(lane.identity) ? "" : " of another communicator");
  }
  return {};
}

std::string describe_missing(const RankStatus& status, const LaneStatus& lane) {
  std::string text = fmt::format("rank {}", status.rank);
  if (status.age > 0 && !status.is_watching)
    text += fmt::format(", when last heard of {:.1f} s ago,", seconds(status.age));
  if (lane.running.number != 0) {
    text += fmt::format(" is in {} since {:.1f} s", lane.running.describe(), seconds(lane.waiting));
  } else if (lane.completed.number != 0) {
    text += fmt::format(" last completed {}, {:.1f} s ago", lane.completed.describe(),
                        seconds(lane.completed_age));
  } else {
    text += " has not completed any";
  }
  if (lane.running.number == 0) text += describe_elsewhere(status, lane);
  const auto trouble = trouble_of(status);
  return trouble.empty() ? text : fmt::format("{} ({})", text, trouble);
}

// Names members of whom nothing is known, where the group is the whole job; otherwise counts them.
std::string describe_unknown(std::span<const RankStatus> statuses, std::uint64_t group, int members,
                             int unknown) {
  if (Lane::group_of(group) != 1) return fmt::format("; of {} more nothing is known here", unknown);
  std::vector<int> ranks;
  for (int rank = 0; rank < members; ++rank) {
    if (std::ranges::none_of(statuses, [&](const RankStatus& status) {
          return status.rank == rank && status.lane(group) != nullptr;
        }))
      ranks.push_back(rank);
  }
  return "; nothing is known here of rank " + list_of_ranks(ranks);
}

// Says who has come to the collective, and what is known of the other members of its group.
std::string describe_attendance(std::span<const RankStatus> statuses, std::uint64_t group,
                                const CollectiveRecord& collective, int members) {
  std::vector<int> arrived;
  std::vector<const RankStatus*> missing;
  std::vector<const RankStatus*> silent;  // have arrived, but are stopped, gone or not heard of
  for (const RankStatus& status : statuses) {
    const LaneStatus* const lane = status.lane(group);
    if (!lane) continue;
    if (lane->running.position() != collective.position() ||
        !first_difference(collective, lane->running).empty()) {
      missing.push_back(&status);
      continue;
    }
    arrived.push_back(status.rank);
    if (!status.is_watching) silent.push_back(&status);
  }
  const int unknown = members - static_cast<int>(arrived.size() + missing.size());
  std::string text = "arrived: rank " + list_of_ranks(arrived);
  if (missing.empty() && unknown == 0) text += ", which is all; it does not end";
  if (!silent.empty()) {
    text += fmt::format("; rank {} has, but {}", silent.front()->rank, trouble_of(*silent.front()));
    if (silent.size() > 1) text += fmt::format(" (and {} more)", silent.size() - 1);
  }
  // The rank furthest behind comes first: the others may only be waiting for it.
  std::ranges::stable_sort(
      missing, {}, [&](const RankStatus* status) { return status->lane(group)->came_to(); });
  std::size_t told = 0;
  for (const RankStatus* const status : missing) {
    text += told == 0 ? "; not arrived: " : "; ";
    if (told++ == most_ranks_told) break;
    text += describe_missing(*status, *status->lane(group));
  }
  if (missing.size() > most_ranks_told)
    text += fmt::format("and {} more ranks", missing.size() - most_ranks_told);
  if (unknown > 0) text += describe_unknown(statuses, group, members, unknown);
  return text;
}

// Patience with a rank that ends the job and says why itself.
constexpr std::int64_t time_to_say_why = 10'000'000'000;  // nanoseconds

// Last collective that a rank of the group has waited in for that long, and the longest wait in it.
// (Knowledge of a rank may be old, so one that seems to have only begun says nothing.)
struct Head {
  const LaneStatus* lane = nullptr;
  std::int64_t waiting = 0;
};

Head head_of(std::span<const RankStatus> statuses, std::uint64_t group, std::int64_t least) {
  Head head;
  for (const RankStatus& status : statuses) {
    const LaneStatus* const lane = status.lane(group);
    if (!lane || lane->running.number == 0 || lane->waiting < least) continue;
    if (!head.lane || lane->running.position() > head.lane->running.position()) {
      head = {lane, lane->waiting};
    } else if (lane->running.position() == head.lane->running.position()) {
      head.waiting = std::max(head.waiting, lane->waiting);
    }
  }
  return head;
}

// Adds empty device lanes to ranks without a collective on devices, so that they count as missing.
std::vector<RankStatus> with_all_lanes(std::span<const RankStatus> given) {
  std::vector<RankStatus> statuses(given.begin(), given.end());
  std::set<std::uint64_t> of_devices;
  for (const RankStatus& status : statuses) {
    for (const LaneStatus& lane : status.lanes) {
      if (Lane::is_of_devices(lane.identity)) of_devices.insert(lane.identity);
    }
  }
  for (RankStatus& status : statuses) {
    for (const auto identity : of_devices) {
      const LaneStatus* const of_host = status.lane(Lane::group_of(identity));
      if (of_host == nullptr || status.lane(identity) != nullptr) continue;
      status.lanes.push_back(
          {.identity = identity, .has_left = of_host->has_left, .members = of_host->members});
    }
  }
  return statuses;
}

const RankStatus* status_of(std::span<const RankStatus> statuses, std::int32_t rank) {
  const auto found = std::ranges::find(statuses, rank, &RankStatus::rank);
  return found == statuses.end() ? nullptr : &*found;
}

// Reason why a transfer with this peer may not go on.
std::string describe_peer(const CollectiveRecord& transfer, const RankStatus* peer) {
  if (!peer) return fmt::format("of rank {} nothing is known here", transfer.peer);
  if (transfer.started != 0) {
    const auto trouble = trouble_of(*peer);
    return fmt::format("rank {} has come too, and it does not end{}", peer->rank,
                       trouble.empty() ? "" : fmt::format(" ({})", trouble));
  }
  const LaneStatus* const lane = peer->lane(Lane::group_of(Lane::identity_of(transfer)));
  return "not come: " + describe_missing(*peer, lane ? *lane : LaneStatus{});
}

// Transfer that a rank has waited for longest.
std::optional<Stall> find_stalled_transfer(const RankStatus& status,
                                           std::span<const RankStatus> statuses,
                                           std::int64_t least) {
  const LaneStatus* longest = nullptr;
  int others = -1;
  for (const LaneStatus& lane : status.lanes) {
    if (!Lane::is_of_transfer(lane.identity) || lane.waiting < least) continue;
    ++others;
    if (!longest || lane.waiting > longest->waiting) longest = &lane;
  }
  if (!longest) return std::nullopt;
  const CollectiveRecord& transfer = longest->running;
  Stall stall{
      .group = longest->identity, .position = transfer.position(), .waiting = longest->waiting};
  stall.collective = fmt::format("{} of rank {}", transfer.describe(), status.rank);
  stall.report = fmt::format("watch: rank {} has waited {:.1f} s in {}{}{}; {}", status.rank,
                             seconds(stall.waiting), transfer.describe(),
                             transfer.group == 0 ? "" : " of another communicator",
                             others > 0 ? fmt::format(" (and {} more transfers)", others) : "",
                             describe_peer(transfer, status_of(statuses, transfer.peer)));
  return stall;
}

}  // namespace

std::vector<Stall> find_stalls(std::span<const RankStatus> known, int job_size,
                               std::int64_t least) {
  const auto statuses = with_all_lanes(known);
  std::set<std::uint64_t> groups;
  for (const RankStatus& status : statuses) {
    for (const LaneStatus& lane : status.lanes) {
      if (!Lane::is_of_transfer(lane.identity)) groups.insert(lane.identity);
    }
  }
  std::vector<Stall> stalls;
  for (const auto group : groups) {
    const Head head = head_of(statuses, group, least);
    if (!head.lane) continue;
    Stall stall{.group = group, .position = head.lane->running.position(), .waiting = head.waiting};
    stall.collective = head.lane->running.describe();
    const bool is_job = Lane::group_of(group) == 1;  // group 0, whose first rank is 0
    const int members = is_job ? job_size : static_cast<int>(head.lane->members);
    stall.report =
        fmt::format("watch: ranks have waited {:.1f} s in {}{}; {}", seconds(stall.waiting),
                    stall.collective, members == job_size ? "" : " of a set of ranks",
                    describe_attendance(statuses, group, head.lane->running, members));
    stalls.push_back(std::move(stall));
  }
  for (const RankStatus& status : statuses) {
    if (auto stall = find_stalled_transfer(status, statuses, least))
      stalls.push_back(std::move(*stall));
  }
  return stalls;
}

namespace {

// Finds a rank that waits in join() for one that has left. A departed rank with one join more has
// joined already; then this rank is only slow.
const RankStatus* find_waiting_in_join(std::span<const RankStatus> statuses,
                                       const LaneStatus& departed, std::int64_t least) {
  for (const RankStatus& status : statuses) {
    const LaneStatus* const lane = status.lane(departed.identity);
    if (lane && lane->joined >= least && lane->joined > 0 && departed.joins <= lane->joins)
      return &status;
  }
  return nullptr;
}

// Tells whether the rank calls nothing any more in the transfer's group.
bool has_left(const RankStatus& status, const CollectiveRecord& transfer) {
  const LaneStatus* const lane = status.lane(Lane::group_of(Lane::identity_of(transfer)));
  return status.has_left || status.state == ProcessState::gone || (lane && lane->has_left != 0);
}

// Finds a transfer whose peer has left. Bytes may be on their way yet where the peer had come.
std::optional<std::string> find_abandoned_transfer(std::span<const RankStatus> statuses,
                                                   std::int64_t least) {
  for (const RankStatus& status : statuses) {
    for (const LaneStatus& lane : status.lanes) {
      if (!Lane::is_of_transfer(lane.identity)) continue;
      const RankStatus* const peer = status_of(statuses, lane.running.peer);
      if (!peer || !has_left(*peer, lane.running)) continue;
      const bool is_patient = peer->says_why || lane.running.started != 0;
      if (lane.waiting < (is_patient ? std::max(least, time_to_say_why) : least)) continue;
      return fmt::format("rank {} has left{}, but rank {} has waited for it {:.1f} s in {}",
                         peer->rank,
                         peer->state == ProcessState::gone ? " (its process has ended)" : "",
                         status.rank, seconds(lane.waiting), lane.running.describe());
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_departure(std::span<const RankStatus> known, std::int64_t least) {
  const auto statuses = with_all_lanes(known);
  if (auto abandoned = find_abandoned_transfer(statuses, least)) return abandoned;
  for (const RankStatus& status : statuses) {
    const bool is_gone = status.state == ProcessState::gone;
    for (const LaneStatus& lane : status.lanes) {
      if (Lane::is_of_transfer(lane.identity)) continue;
      if (!is_gone && !status.has_left && lane.has_left == 0) continue;
      // A rank that says itself why it ends the job gets time for it.
      const auto patience = status.says_why ? std::max(least, time_to_say_why) : least;
      const std::string end = is_gone ? " (its process has ended)" : "";
      const RankStatus* const joined = find_waiting_in_join(statuses, lane, patience);
      if (joined && joined != &status) {
        return fmt::format(
            "rank {} has left{} without join(), for which rank {} has waited {:.1f} s in its own",
            status.rank, end, joined->rank, seconds(joined->lane(lane.identity)->joined));
      }
      const Head head = head_of(statuses, lane.identity, patience);
      // A rank whose process has ended inside a collective had come to it. A living rank's device
      // still does what has been asked for.
      const auto came_to = is_gone ? lane.came_to() : lane.has_asked_to();
      if (!head.lane || head.lane->running.position() <= came_to) continue;
      return fmt::format("rank {} has left{}, but ranks have waited for it {:.1f} s in {}",
                         status.rank, end, seconds(head.waiting), head.lane->running.describe());
    }
  }
  return std::nullopt;
}

void WaitingTimes::look(std::int64_t now) {
  step_ = last_look_ == 0 ? longest_step_ : std::min(now - last_look_, longest_step_);
  last_look_ = now;
  ++looks_;
}

void WaitingTimes::correct(RankStatus& status) {
  for (LaneStatus& lane : status.lanes) {
    Waiting& waiting = waitings_[{status.rank, lane.identity}];
    if (lane.running.number == 0) {
      waiting = {};
      continue;
    }
    if (waiting.position != lane.running.position())
      waiting = {.position = lane.running.position()};
    if (waiting.looks != looks_) waiting.counted += step_;
    waiting.looks = looks_;
    // A wait that began since the last look is no longer than by the clock.
    waiting.counted = std::min(waiting.counted, lane.waiting);
    lane.waiting = waiting.counted;
  }
}

}  // namespace kolo
