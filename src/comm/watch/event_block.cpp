#include "comm/watch/event_block.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kolo {

std::int32_t own_process() {
  return ::getpid();
}

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
  switch (line[bracket + 2]) {
    case 'T':
    case 't':
      return ProcessState::stopped;
    case 'Z':
    case 'X':
      return ProcessState::gone;
    default:
      return ProcessState::alive;
  }
}

std::string CollectiveRecord::describe() const {
  const std::string part_text = part == 0 ? std::string() : fmt::format(".{}", part);
  const std::string text = fmt::format("call {}{}, {}", number, part_text, CallHeader::describe());
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

// A writer that was stopped in the middle of a record stays there, so after a tenth of a second it
// is taken as it is; one that only waits for a processor comes back before.
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

std::int64_t monotonic_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

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
  block_->process = own_process();
  block_->process_namespace = own_process_namespace();
  block_->beat = monotonic_now();
}

// Groups beyond the number of lanes are not recorded: nullptr.
Lane* FlightRecorder::lane_of(const CollectiveCall& call) {
  const auto identity = Lane::identity_of(call);
  for (Lane& lane : block_->lanes) {
    const auto present = lane.identity.load(std::memory_order_relaxed);
    if (present == identity) return &lane;
    if (present != 0) continue;
    lane.identity.store(identity, std::memory_order_release);
    return &lane;
  }
  return nullptr;
}

void FlightRecorder::joined_group(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  if (Lane* const lane = lane_of(call))
    lane->members.store(static_cast<std::uint64_t>(call.count), std::memory_order_release);
}

void FlightRecorder::left_group(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  if (Lane* const lane = lane_of(call)) lane->has_left.store(1, std::memory_order_release);
}

void FlightRecorder::submitted(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  Lane* const lane = lane_of(call);
  if (!lane || lane->cell(call.number).read().is_waiting()) return;  // that one matters more
  auto record = record_of(call);
  record.submitted = monotonic_now();
  lane->cell(call.number).write(record);
}

void FlightRecorder::started(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  Lane* const lane = lane_of(call);
  if (!lane) return;
  RecordCell& cell = lane->cell(call.number);
  auto record = record_of(call);
  record.started = monotonic_now();
  if (const auto before = cell.read(); before.number == call.number)
    record.submitted = before.submitted;
  cell.write(record);
  if (call.collective == Collective::join)
    lane->joined.store(record.started, std::memory_order_release);
  if (is_waited_for(call.collective)) lane->running.store(call.number, std::memory_order_release);
}

void FlightRecorder::finished(const CollectiveCall& call, bool failed) {
  const std::lock_guard lock(mutex_);
  Lane* const lane = lane_of(call);
  if (!lane) return;
  RecordCell& cell = lane->cell(call.number);
  auto record = cell.read();
  if (record.number == call.number) {
    record.finished = monotonic_now();
    record.failed = failed ? 1 : 0;
    cell.write(record);
  }
  if (call.collective == Collective::join) {
    if (!failed) lane->joins.fetch_add(1, std::memory_order_release);
    lane->joined.store(0, std::memory_order_release);
  }
  if (!is_waited_for(call.collective)) return;
  lane->running.store(0, std::memory_order_release);
  lane->completed.store(call.number, std::memory_order_release);
}

}  // namespace kolo
