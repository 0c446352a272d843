#include "comm/watch/event_dump.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/file.h"

namespace kolo {

namespace {

// Seconds before now, or nothing.
std::string age(std::int64_t time, std::int64_t now) {
  return time == 0 ? std::string("-")
                   : fmt::format("{:.6f}", static_cast<double>(now - time) * 1e-9);
}

std::string table_of(const Lane& lane, std::int64_t now) {
  std::vector<CollectiveRecord> records;
  for (const RecordCell& cell : lane.records) {
    if (const auto record = cell.read(); record.number != 0) records.push_back(record);
  }
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  std::string text =
      fmt::format("{:>14} {:>14} {:>14}  collective\n", "asked for", "started", "ended");
  for (const auto& record : records) {
    text += fmt::format("{:>14} {:>14} {:>14}  {}{}\n", age(record.submitted, now),
                        age(record.started, now), age(record.finished, now), record.describe(),
                        record.failed ? " (failed)" : "");
  }
  return text;
}

}  // namespace

std::filesystem::path dump_events(const std::filesystem::path& folder, const RankStatus& status,
                                  const EventBlock& block) {
  const auto now = monotonic_now();
  std::string text = fmt::format(
      "rank {}, process {}{}\nThe last collectives of each communicator, in seconds before this "
      "was "
      "written; \"asked for\" is of those that run on the communication thread.\n",
      status.rank, status.process,
      status.state == ProcessState::stopped ? ", stopped"
      : status.state == ProcessState::gone  ? ", gone"
                                            : "");
  for (const Lane& lane : block.lanes) {
    const auto identity = lane.identity.load(std::memory_order_acquire);
    if (identity == 0) continue;
    const auto group = (identity - 1) >> 32;
    text += group == 0 ? "\nall ranks of the job\n"
                       : fmt::format("\nset of ranks {}, whose first is rank {}\n", group,
                                     static_cast<std::uint32_t>(identity - 1));
    text += table_of(lane, now);
  }
  const auto path = folder / fmt::format("kolo-watch-rank-{:05}.txt", status.rank);
  write_file_atomically(path, text);
  return path;
}

}  // namespace kolo
