#include "comm/watch/event_block.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <type_traits>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo/base/file.h"

namespace kolo {

std::uint64_t own_process_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

ProcessState state_of_process(std::int32_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return ProcessState::gone;
  // The name, in brackets, may hold anything; the state is the letter after it.
  const auto bracket = line.rfind(')');
  if (bracket == std::string::npos || bracket + 2 >= line.size()) return ProcessState::unknown;
  const char state = line[bracket + 2];
  if (state == 'T' || state == 't') return ProcessState::stopped;
  return state == 'Z' || state == 'X' ? ProcessState::gone : ProcessState::alive;
}

std::string CollectiveRecord::describe() const {
  const std::string suffix = in_task == 0 ? std::string() : fmt::format(".{}", in_task);
  const std::string text = fmt::format("{} {}{}, {}", is_transfer(collective) ? "transfer" : "call",
                                       number, suffix, CallHeader::describe());
  return name[0] == 0 ? text : fmt::format("{}, \"{}\"", text, name.data());
}

void RecordCell::write(const CollectiveRecord& record) {
  std::array<std::uint64_t, words> values;
  std::memcpy(values.data(), &record, sizeof(record));
  const auto version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < words; ++i) words_[i].store(values[i], std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

// Reads again while the record changes, for a tenth of a second: a writer that waits for a
// processor comes back before, and one that was stopped in the middle of a record doesn't.
CollectiveRecord RecordCell::read() const {
  std::array<std::uint64_t, words> values;
  constexpr int quick_looks = 100, looks = 200;
  for (int look = 0; look < looks; ++look) {
    const auto before = version_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < words; ++i) values[i] = words_[i].load(std::memory_order_acquire);
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
    if (look < quick_looks)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CollectiveRecord record;
  std::memcpy(static_cast<void*>(&record), values.data(), sizeof(record));
  record.name.back() = 0;
  return record;
}

void Lane::clear() {
  identity = is_changing;
  for (auto* const value : {&running, &asked, &awaited, &completed, &has_left, &members, &joins})
    *value = 0;
  joined = 0;
  for (RecordCell& record : records) record.write({});
}

std::int64_t monotonic_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

namespace {

LaneStatus read_lane(const Lane& lane, std::uint64_t identity, std::int64_t now) {
  LaneStatus status;
  status.identity = identity;
  status.has_left = lane.has_left.load(std::memory_order_acquire);
  status.members = lane.members.load(std::memory_order_acquire);
  status.joins = lane.joins.load(std::memory_order_acquire);
  status.asked = lane.asked.load(std::memory_order_acquire);
  if (const auto since = lane.joined.load(std::memory_order_acquire)) status.joined = now - since;
  if (const auto number = lane.running.load(std::memory_order_acquire)) {
    const auto record = lane.cell(number).read();
    if (record.number == number && record.is_waiting()) {
      status.running = record;
      status.waiting = now - record.started;
      status.is_awaited = number <= lane.awaited.load(std::memory_order_acquire) ? 1 : 0;
    }
  }
  if (const auto number = lane.completed.load(std::memory_order_acquire)) {
    const auto record = lane.cell(number).read();
    if (record.number == number) status.completed = record;
    status.completed_age = record.finished == 0 ? 0 : now - record.finished;
  }
  return status;
}

}  // namespace

const LaneStatus* RankStatus::lane(std::uint64_t identity) const {
  const auto found = std::ranges::find(lanes, identity, &LaneStatus::identity);
  return found == lanes.end() ? nullptr : &*found;
}

std::int64_t RankStatus::longest_wait() const {
  std::int64_t longest = 0;
  for (const LaneStatus& lane : lanes) longest = std::max(longest, lane.waiting);
  return longest;
}

RankStatus read_status(int rank, const EventBlock& block, std::int64_t silence) {
  const auto now = monotonic_now();
  RankStatus status;
  status.rank = rank;
  status.process = block.process;
  if (block.process_namespace != 0 && block.process_namespace == own_process_namespace())
    status.state = state_of_process(status.process);
  const auto beat = block.beat.load();
  status.has_left = beat == EventBlock::has_left;
  status.is_watching = !status.has_left && now - beat < silence &&
                       status.state != ProcessState::stopped && status.state != ProcessState::gone;
  status.waited_at_end = block.waited_at_end;
  status.says_why = block.says_why != 0;
  status.has_one_caller = block.callers == 1;
  for (const Lane& lane : block.lanes) {
    const auto identity = lane.identity.load(std::memory_order_acquire);
    if (identity == 0 || identity == Lane::is_changing) continue;
    const auto of_lane = read_lane(lane, identity, now);
    if (lane.identity.load(std::memory_order_acquire) == identity) status.lanes.push_back(of_lane);
  }
  for (std::size_t cell = 0; cell < block.transfers.size(); ++cell) {
    const auto record = block.transfers[cell].read();
    if (record.submitted == 0 || record.finished != 0) continue;
    status.lanes.push_back({.identity = Lane::identity_of_transfer(rank, cell),
                            .is_awaited = record.awaited != 0 ? 1U : 0U,
                            .waiting = now - record.submitted,
                            .running = record});
  }
  return status;
}

std::vector<std::byte> to_bytes(const RankStatus& status) {
  static_assert(std::is_trivially_copyable_v<RankState> &&
                std::is_trivially_copyable_v<LaneStatus>);
  const RankState& state = status;
  const auto of_lanes = std::as_bytes(std::span(status.lanes));
  std::vector<std::byte> bytes(sizeof(state) + of_lanes.size());
  std::memcpy(bytes.data(), &state, sizeof(state));
  std::ranges::copy(of_lanes, bytes.begin() + sizeof(state));
  return bytes;
}

std::optional<RankStatus> from_bytes(std::span<const std::byte> bytes) {
  RankState state;
  if (bytes.size() < sizeof(state) || (bytes.size() - sizeof(state)) % sizeof(LaneStatus) != 0)
    return std::nullopt;
  std::memcpy(static_cast<void*>(&state), bytes.data(), sizeof(state));
  const auto of_lanes = bytes.subspan(sizeof(state));
  std::vector<LaneStatus> lanes(of_lanes.size() / sizeof(LaneStatus));
  std::ranges::copy(of_lanes, std::as_writable_bytes(std::span(lanes)).begin());
  return RankStatus{state, std::move(lanes)};
}

namespace {

// Seconds before now; "-" for a time that has not come.
std::string age(std::int64_t time, std::int64_t now) {
  return time == 0 ? std::string("-")
                   : fmt::format("{:.6f}", static_cast<double>(now - time) * 1e-9);
}

std::string table_of(std::span<const RecordCell> kept, std::int64_t now) {
  std::vector<CollectiveRecord> records;
  for (const RecordCell& cell : kept) {
    if (const auto record = cell.read(); record.number != 0) records.push_back(record);
  }
  std::ranges::sort(records, {}, &CollectiveRecord::number);
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
      "was written; \"asked for\" is of those that run on the communication thread.\n",
      status.rank, status.process,
      status.state == ProcessState::stopped ? ", stopped"
      : status.state == ProcessState::gone  ? ", gone"
                                            : "");
  for (const Lane& lane : block.lanes) {
    const auto identity = lane.identity.load(std::memory_order_acquire);
    if (identity == 0 || identity == Lane::is_changing) continue;
    const auto group = Lane::group_of(identity) - 1;
    text += group == 0 ? std::string("\nall ranks of the job")
                       : fmt::format("\nset of ranks {}, whose first is rank {}", group >> 32,
                                     static_cast<std::uint32_t>(group));
    text += Lane::is_of_devices(identity) ? ", on devices' memory\n" : "\n";
    text += table_of(lane.records, now);
  }
  const auto transfers = table_of(block.transfers, now);
  if (std::count(transfers.begin(), transfers.end(), '\n') > 1)
    text += "\ntransfers, with the peers' ranks in the job; \"started\": the peer had come\n" +
            transfers;
  const auto path = folder / fmt::format("kolo-watch-rank-{:05}.txt", status.rank);
  write_file_atomically(path, text);
  return path;
}

namespace {

CollectiveRecord record_of(const CollectiveCall& call) {
  CollectiveRecord record;
  static_cast<CallHeader&>(record) = call;
  const auto length = std::min(call.name.size(), record.name.size() - 1);
  std::copy_n(call.name.begin(), length, record.name.begin());
  return record;
}

// Tells whether a rank in this call waits for others. A task does things of its own between its
// collectives, and a rank that has joined is meant to wait.
bool is_waited_for(Collective collective) {
  return collective != Collective::task && collective != Collective::join;
}

}  // namespace

FlightRecorder::FlightRecorder(std::shared_ptr<EventBlock> block) : block_(std::move(block)) {
  block_->process = ::getpid();
  block_->process_namespace = own_process_namespace();
  block_->beat = monotonic_now();
  for (std::size_t cell = 0; cell < block_->transfers.size(); ++cell) free_cells_.push_back(cell);
}

void FlightRecorder::transfer_submitted(const CollectiveCall& call) {
  if (free_cells_.empty()) return;
  const auto cell = free_cells_.front();
  free_cells_.pop_front();
  transfers_[{call.group, call.first_rank, call.number}] = cell;
  auto record = record_of(call);
  record.peer = call.peer_in_job;
  record.submitted = monotonic_now();
  block_->transfers[cell].write(record);
}

void FlightRecorder::change_transfer(const CallHeader& call,
                                     const std::function<void(CollectiveRecord&)>& change) {
  const auto found = transfers_.find({call.group, call.first_rank, call.number});
  if (found == transfers_.end()) return;
  RecordCell& cell = block_->transfers[found->second];
  auto record = cell.read();
  change(record);
  cell.write(record);
  if (record.finished == 0) return;
  free_cells_.push_back(found->second);
  transfers_.erase(found);
}

std::size_t FlightRecorder::number_of(const Lane& lane) const {
  return static_cast<std::size_t>(&lane - block_->lanes.data());
}

// Tells whether this rank waits for nothing in the lane, and nothing is asked for there.
bool FlightRecorder::is_quiet(const Lane& lane) {
  return in_progress_[number_of(lane)].empty() && lane.joined == 0 && lane.awaited == 0 &&
         lane.asked <= lane.completed;
}

// The lane that has not been used for longest of those that were left, or else of the quiet ones;
// null if there is none.
Lane* FlightRecorder::lane_to_reuse() {
  Lane* best = nullptr;
  const auto order = [&](const Lane& lane) {
    return std::pair(lane.has_left == 0, last_uses_[number_of(lane)]);
  };
  for (Lane& lane : block_->lanes) {
    if (lane.has_left == 0 && !is_quiet(lane)) continue;
    if (best == nullptr || order(lane) < order(*best)) best = &lane;
  }
  return best;
}

// Lane of a group; null for one that comes when all lanes are in use.
Lane* FlightRecorder::lane_of(std::uint64_t identity) {
  std::uint64_t members = 0;
  Lane* unused = nullptr;
  for (Lane& lane : block_->lanes) {
    const auto present = lane.identity.load(std::memory_order_relaxed);
    if (present == identity) {
      last_uses_[number_of(lane)] = ++uses_;
      return &lane;
    }
    if (present == Lane::group_of(identity)) members = lane.members.load();
    if (present != 0) continue;
    unused = &lane;
    break;
  }
  if (unused == nullptr) {
    unused = lane_to_reuse();
    if (unused == nullptr) return nullptr;
    unused->clear();
    in_progress_[number_of(*unused)].clear();
  }
  last_uses_[number_of(*unused)] = ++uses_;
  unused->members.store(members, std::memory_order_relaxed);
  unused->identity.store(identity, std::memory_order_release);
  return unused;
}

void FlightRecorder::on_group(const CollectiveCall& call) noexcept {
  const std::lock_guard lock(mutex_);
  if (Lane* const lane = lane_of(Lane::identity_of(call)))
    lane->members.store(static_cast<std::uint64_t>(call.count), std::memory_order_release);
}

void FlightRecorder::on_leave(const CollectiveCall& call) noexcept {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : block_->lanes) {
    const auto identity = lane.identity.load(std::memory_order_relaxed);
    if (identity != 0 && Lane::group_of(identity) == Lane::identity_of(call))
      lane.has_left.store(1, std::memory_order_release);
  }
}

// Notes whether several threads make calls; those inside of tasks don't count.
void FlightRecorder::note_caller() {
  const auto present = std::this_thread::get_id();
  if (caller_ == present) return;
  if (caller_ == std::thread::id()) caller_ = present;
  block_->callers.store(caller_ == present ? 1 : 2, std::memory_order_release);
}

void FlightRecorder::on_wait(const CallHeader& call, bool begins) noexcept {
  const std::lock_guard lock(mutex_);
  if (call.in_task == 0) note_caller();
  if (is_transfer(call.collective)) {
    return change_transfer(call,
                           [&](auto& record) { record.awaited = begins ? monotonic_now() : 0; });
  }
  if (Lane* const lane = lane_of(Lane::identity_of(call)))
    lane->awaited.store(begins ? call.number : 0, std::memory_order_release);
}

void FlightRecorder::on_submit(const CollectiveCall& call) noexcept {
  const std::lock_guard lock(mutex_);
  if (call.in_task == 0) note_caller();
  if (is_transfer(call.collective)) return transfer_submitted(call);
  Lane* const lane = lane_of(Lane::identity_of(call));
  if (!lane) return;
  lane->asked.store(call.number, std::memory_order_release);
  if (lane->cell(call.number).read().is_waiting()) return;  // keeps what the rank waits in
  auto record = record_of(call);
  record.submitted = monotonic_now();
  lane->cell(call.number).write(record);
}

void FlightRecorder::on_start(const CollectiveCall& call) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_transfer(call.collective))
    return change_transfer(call, [](auto& record) { record.started = monotonic_now(); });
  Lane* const lane = lane_of(Lane::identity_of(call));
  if (!lane) return;
  RecordCell& cell = lane->cell(call.number);
  auto record = record_of(call);
  record.started = monotonic_now();
  if (const auto before = cell.read(); before.number == call.number)
    record.submitted = before.submitted;
  cell.write(record);
  // A direct call runs on the thread that asks for it, which waits in it.
  const bool is_direct = call.in_task == 0 && record.submitted == 0 && lane->awaited != call.number;
  if (is_direct) {
    note_caller();
    lane->awaited.store(call.number, std::memory_order_release);
  }
  if (call.collective == Collective::join)
    lane->joined.store(record.started, std::memory_order_release);
  if (!is_waited_for(call.collective)) return;
  auto& numbers = in_progress_[number_of(*lane)];
  numbers.push_back(call.number);
  lane->running.store(numbers.front(), std::memory_order_release);
}

void FlightRecorder::on_finish(const CollectiveCall& call, bool failed) noexcept {
  const std::lock_guard lock(mutex_);
  const auto end = [&](CollectiveRecord& record) {
    record.finished = monotonic_now();
    record.failed = failed ? 1 : 0;
  };
  if (is_transfer(call.collective)) return change_transfer(call, end);
  Lane* const lane = lane_of(Lane::identity_of(call));
  if (!lane) return;
  RecordCell& cell = lane->cell(call.number);
  auto record = cell.read();
  if (record.number == call.number && record.in_task == call.in_task) {
    end(record);
    cell.write(record);
  }
  if (call.collective == Collective::join) {
    if (!failed) lane->joins.fetch_add(1, std::memory_order_release);
    lane->joined.store(0, std::memory_order_release);
  }
  if (call.in_task == 0 && record.submitted == 0 && lane->awaited == call.number) lane->awaited = 0;
  if (!is_waited_for(call.collective)) return;
  auto& numbers = in_progress_[number_of(*lane)];
  if (const auto found = std::find(numbers.begin(), numbers.end(), call.number);
      found != numbers.end())
    numbers.erase(found);
  lane->running.store(numbers.empty() ? 0 : numbers.front(), std::memory_order_release);
  lane->completed.store(call.number, std::memory_order_release);
}

}  // namespace kolo
