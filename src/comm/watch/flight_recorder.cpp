#include <algorithm>

#include <unistd.h>

#include "comm/watch/event_block.h"

namespace kolo {

namespace {

CollectiveRecord record_of(const CollectiveCall& call) {
  CollectiveRecord record;
  static_cast<CallHeader&>(record) = call;
  const auto length = std::min(call.name.size(), record.name.size() - 1);
  std::copy_n(call.name.begin(), length, record.name.begin());
  return record;
}

// A task does things of its own between its collectives, and a rank that has joined is meant to
// wait: neither waits for a collective by itself.
bool is_waited_for(Collective collective) {
  return collective != Collective::task && collective != Collective::join;
}

}  // namespace

FlightRecorder::FlightRecorder(std::shared_ptr<EventBlock> block) : block_(std::move(block)) {
  block_->process = ::getpid();
  block_->process_namespace = own_process_namespace();
  block_->beat = monotonic_now();
  for (std::size_t place = 0; place < block_->transfers.size(); ++place)
    free_cells_.push_back(place);
}

void FlightRecorder::transfer_submitted(const CollectiveCall& call) {
  if (free_cells_.empty()) return;
  const auto place = free_cells_.front();
  free_cells_.pop_front();
  transfers_[{call.group, call.first_rank, call.number}] = place;
  auto record = record_of(call);
  record.peer = call.peer_in_job;
  record.submitted = monotonic_now();
  block_->transfers[place].write(record);
}

// Nothing where it is not recorded.
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

// Groups beyond the number of lanes are not recorded: nullptr.
Lane* FlightRecorder::lane_of(std::uint64_t identity) {
  std::uint64_t members = 0;
  for (Lane& lane : block_->lanes) {
    const auto present = lane.identity.load(std::memory_order_relaxed);
    if (present == identity) return &lane;
    if (present == Lane::group_of(identity)) members = lane.members.load();
    if (present != 0) continue;
    lane.members.store(members, std::memory_order_relaxed);
    lane.identity.store(identity, std::memory_order_release);
    return &lane;
  }
  return nullptr;
}

std::vector<std::uint64_t>& FlightRecorder::in_progress(const Lane& lane) {
  return in_progress_[static_cast<std::size_t>(&lane - block_->lanes.data())];
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

// Calls inside of tasks are those of the communication thread.
void FlightRecorder::note_caller() {
  const auto present = std::this_thread::get_id();
  if (caller_ == present) return;
  if (caller_ == std::thread::id()) caller_ = present;
  block_->callers.store(caller_ == present ? 1 : 2, std::memory_order_release);
}

void FlightRecorder::on_wait(const CallHeader& call, bool begins) noexcept {
  const std::lock_guard lock(mutex_);
  if (call.part == 0) note_caller();
  if (is_transfer(call.collective)) {
    return change_transfer(call,
                           [&](auto& record) { record.awaited = begins ? monotonic_now() : 0; });
  }
  if (Lane* const lane = lane_of(Lane::identity_of(call)))
    lane->awaited.store(begins ? call.number : 0, std::memory_order_release);
}

void FlightRecorder::on_submit(const CollectiveCall& call) noexcept {
  const std::lock_guard lock(mutex_);
  if (call.part == 0) note_caller();
  if (is_transfer(call.collective)) return transfer_submitted(call);
  Lane* const lane = lane_of(Lane::identity_of(call));
  if (!lane) return;
  lane->asked.store(call.number, std::memory_order_release);
  if (lane->cell(call.number).read().is_waiting()) return;  // that one matters more
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
  // On the thread that asks for it, which waits in it.
  const bool is_direct = call.part == 0 && record.submitted == 0 && lane->awaited != call.number;
  if (is_direct) {
    note_caller();
    lane->awaited.store(call.number, std::memory_order_release);
  }
  if (call.collective == Collective::join)
    lane->joined.store(record.started, std::memory_order_release);
  if (!is_waited_for(call.collective)) return;
  auto& numbers = in_progress(*lane);
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
  if (record.number == call.number && record.part == call.part) {
    end(record);
    cell.write(record);
  }
  if (call.collective == Collective::join) {
    if (!failed) lane->joins.fetch_add(1, std::memory_order_release);
    lane->joined.store(0, std::memory_order_release);
  }
  if (call.part == 0 && record.submitted == 0 && lane->awaited == call.number) lane->awaited = 0;
  if (!is_waited_for(call.collective)) return;
  auto& numbers = in_progress(*lane);
  if (const auto place = std::find(numbers.begin(), numbers.end(), call.number);
      place != numbers.end())
    numbers.erase(place);
  lane->running.store(numbers.empty() ? 0 : numbers.front(), std::memory_order_release);
  lane->completed.store(call.number, std::memory_order_release);
}

}  // namespace kolo
