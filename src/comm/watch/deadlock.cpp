#include "comm/watch/stall.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/messages.h"

namespace kolo {

namespace {

constexpr std::size_t most_waits_shown = 6;

// Lane in which a rank waits, and a rank that has not come to it.
struct Wait {
  const LaneStatus* lane = nullptr;
  int missing = 0;
};

using Waits = std::map<int, std::vector<Wait>>;  // by rank

bool has_waited(const LaneStatus& lane, std::int64_t least) {
  return lane.running.number != 0 && lane.waiting >= least;
}

void add_waits(Waits& waits, const RankStatus& status, const LaneStatus& lane,
               std::span<const RankStatus> statuses) {
  auto& of_rank = waits[status.rank];
  if (Lane::is_of_transfer(lane.identity)) {
    if (lane.running.started == 0) of_rank.push_back({&lane, lane.running.peer});
    return;
  }
  for (const RankStatus& other : statuses) {
    const LaneStatus* const there = other.lane(lane.identity);
    if (there != nullptr && there->has_asked_to() < lane.running.position())
      of_rank.push_back({&lane, other.rank});
  }
}

// Tells whether a rank may not be waiting. A process that is stopped may go on when it is
// continued: the others may have come meanwhile.
bool may_go_on(const RankStatus& status) {
  return status.has_left || !status.has_one_caller || status.state == ProcessState::stopped ||
         !status.is_watching;
}

Waits find_waits(std::span<const RankStatus> statuses, std::int64_t least) {
  Waits waits;
  for (const RankStatus& status : statuses) {
    if (may_go_on(status)) continue;
    for (const LaneStatus& lane : status.lanes) {
      if (lane.is_awaited != 0 && has_waited(lane, least)) add_waits(waits, status, lane, statuses);
    }
  }
  return waits;
}

// Drops ranks that wait for nobody who is stuck, until only ranks that wait for each other are
// left.
void keep_stuck(Waits& waits) {
  for (bool is_changed = true; is_changed;) {
    const auto can_go_on = [&](const auto& rank) {
      return std::ranges::none_of(rank.second,
                                  [&](const Wait& wait) { return waits.contains(wait.missing); });
    };
    is_changed = std::erase_if(waits, can_go_on) > 0;
  }
}

std::string describe_wait(int rank, const Wait& wait) {
  const bool is_elsewhere =
      !Lane::is_of_transfer(wait.lane->identity) && Lane::group_of(wait.lane->identity) != 1;
  return fmt::format("rank {} waits for rank {} in {}{}", rank, wait.missing,
                     wait.lane->running.describe(), is_elsewhere ? " of another communicator" : "");
}

// Follows the waits from the lowest rank, and describes the circle that they lead to.
std::string describe_circle(const Waits& waits) {
  std::vector<int> ranks = {waits.begin()->first};
  std::vector<std::string> texts;
  std::int64_t waited = 0;
  while (true) {
    const auto& of_rank = waits.at(ranks.back());
    const Wait& wait = *std::ranges::find_if(
        of_rank, [&](const Wait& each) { return waits.contains(each.missing); });
    texts.push_back(describe_wait(ranks.back(), wait));
    waited = std::max(waited, wait.lane->waiting);
    const auto met = std::ranges::find(ranks, wait.missing);
    if (met != ranks.end()) {
      texts.erase(texts.begin(), texts.begin() + (met - ranks.begin()));
      break;
    }
    ranks.push_back(wait.missing);
  }
  if (texts.size() > most_waits_shown) {
    const auto more = texts.size() - most_waits_shown;
    texts.resize(most_waits_shown);
    texts.push_back(fmt::format("and {} more ranks", more));
  }
  return fmt::format("ranks wait for each other since {:.1f} s, and none of them can go on: {}; {}",
                     static_cast<double>(waited) * 1e-9, fmt::join(texts, "; "), same_order);
}

// Finds two ranks that are in different collectives at one position of their order.
std::optional<std::string> find_different_calls(std::span<const RankStatus> statuses,
                                                std::int64_t least) {
  std::map<std::uint64_t, std::pair<int, const LaneStatus*>> first_in;  // by group
  for (const RankStatus& status : statuses) {
    for (const LaneStatus& lane : status.lanes) {
      if (Lane::is_of_transfer(lane.identity) || !has_waited(lane, least)) continue;
      const auto& [rank, first] =
          first_in.try_emplace(lane.identity, status.rank, &lane).first->second;
      if (first->running.position() != lane.running.position()) continue;
      const auto difference = first_difference(first->running, lane.running);
      if (difference.empty()) continue;
      return fmt::format("rank {} is in {}, and rank {} in {}: {} (they differ in {})", rank,
                         first->running.describe(), status.rank, lane.running.describe(),
                         same_order, difference);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_deadlock(std::span<const RankStatus> statuses, std::int64_t least) {
  if (auto different = find_different_calls(statuses, least)) return different;
  auto waits = find_waits(statuses, least);
  keep_stuck(waits);
  if (waits.empty()) return std::nullopt;
  return describe_circle(waits);
}

}  // namespace kolo
