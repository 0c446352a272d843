#include "comm/processes/process_region.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/shared_memory/node_stage.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

// Communicators of one process: one as a rule, tests make several.
constexpr int most_meetings = 16;

std::size_t staging_bytes(int ranks) {
  return std::max<std::size_t>(4096, std::size_t{128} * static_cast<std::size_t>(ranks));
}

}  // namespace

// Parts of the first meeting by rank, then those of the second, and so on.
std::vector<std::size_t> ProcessRegion::sizes() const {
  return std::vector<std::size_t>(static_cast<std::size_t>(most_meetings * ranks_),
                                  bytes_to_meet(staging_bytes(ranks_)));
}

ProcessRegion::ProcessRegion(int ranks) : ranks_(ranks) {
  for (const auto source : {SharedSegment::Source::anonymous, SharedSegment::Source::dev_shm}) {
    memory_ = std::make_shared<SharedSegment>(0, sizes(), SharedSegment::Room::when_written);
    offer_ = memory_->create(source);
    // As a rank does: /proc may be missing.
    SharedSegment mapping(0, sizes(), SharedSegment::Room::when_written);
    if (!offer_.place.empty() && mapping.open(offer_.place)) return;
  }
  throw Error(
      "comm: there is no memory that ranks could share: neither an anonymous file, which takes "
      "/proc, nor one in /dev/shm");
}

ProcessRegion::ProcessRegion(const EnvironmentLookup& lookup) : ranks_(1) {
  const auto rank = parse_number<int>(lookup(process_rank_variable).value_or(""));
  const auto ranks = parse_number<int>(lookup(process_ranks_variable).value_or(""));
  const auto place = lookup(process_memory_variable);
  if (!rank || !ranks || !place || *rank < 0 || *rank >= *ranks) {
    throw InputError(
        "comm: kolo has not started this process as one of several ranks; start it by kolo run "
        "--launcher processes -n RANKS PROGRAM");
  }
  rank_ = *rank;
  ranks_ = *ranks;
  memory_ = std::make_shared<SharedSegment>(0, sizes(), SharedSegment::Room::when_written);
  if (memory_->open(*place)) return;
  throw Error(fmt::format(
      "comm: rank {} can't reach the memory that the ranks share, {}; the process that started it "
      "has ended, or is in another container",
      rank_, *place));
}

std::vector<std::pair<std::string, std::string>> ProcessRegion::environment(int rank) const {
  return {{process_rank_variable, std::to_string(rank)},
          {process_ranks_variable, std::to_string(ranks_)},
          {process_memory_variable, offer_.place}};
}

NodeGroup ProcessRegion::next_meeting() {
  for (int meeting = 0; meeting < most_meetings; ++meeting) {
    std::vector<std::byte*> parts;
    for (int rank = 0; rank < ranks_; ++rank)
      parts.push_back(memory_->part(meeting * ranks_ + rank));
    const int process = process_of(parts[static_cast<std::size_t>(rank_)]);
    if (process == ::getpid()) continue;
    if (process != 0) {
      throw StateError(fmt::format(
          "comm: process {} has joined the job as rank {} already; of a rank's processes one alone "
          "may call kolo::initialize()",
          process, rank_));
    }
    return {rank_, take_part(parts, memory_, rank_, rank_), std::make_shared<SharedSegments>(rank_),
            NodeGroupOptions{.staging_bytes = staging_bytes(ranks_)}};
  }
  throw StateError(
      fmt::format("comm: this process has made {} communicators of its job's ranks; make one, and "
                  "hand it on",
                  most_meetings));
}

}  // namespace kolo
