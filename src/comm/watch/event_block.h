#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kolo/comm/collective_call.h"

// Records of a rank's last calls, in memory that the ranks of its node map: others read them while
// they are written, also when the rank is stopped or dead. Zero-filled at first.
namespace kolo {

// Namespace in which this process's number is valid; 0: not known.
[[nodiscard]] std::uint64_t own_process_namespace();

enum class ProcessState : std::uint8_t { unknown, alive, stopped, gone };

[[nodiscard]] ProcessState state_of_process(std::int32_t process);

// One collective or transfer; its `peer` is the rank in the job. Times are nanoseconds of the
// monotonic clock, which the processes of a machine share; 0: not yet.
struct CollectiveRecord : CallHeader {
  std::array<char, 36> name{};  // cut short, zero-terminated
  std::uint32_t failed = 0;
  std::int64_t submitted = 0;
  std::int64_t started = 0;
  std::int64_t finished = 0;
  std::int64_t awaited = 0;  // of a transfer: since when a thread of the program waits for it

  // Equal on ranks that are in the same collective.
  [[nodiscard]] std::uint64_t position() const { return number << 16 | (in_task & 0xFFFFU); }
  [[nodiscard]] bool is_waiting() const { return started != 0 && finished == 0; }
  // `call 12, all-reduce (sum) of 4 float32, "bucket 3"`
  [[nodiscard]] std::string describe() const;
};

// Record that one thread at a time writes and others may read at any time: the version is odd while
// it changes.
class RecordCell {
 public:
  void write(const CollectiveRecord& record);
  [[nodiscard]] CollectiveRecord read() const;

 private:
  static constexpr std::size_t words = sizeof(CollectiveRecord) / sizeof(std::uint64_t);
  static_assert(sizeof(CollectiveRecord) % sizeof(std::uint64_t) == 0);

  std::atomic<std::uint64_t> version_;
  std::array<std::atomic<std::uint64_t>, words> words_;
};

// Calls of a communicator, or a set of ranks, that this rank belongs to: those on the host's
// memory, or those on devices', which go on beside them. Collective n is in record n modulo their
// number.
struct Lane {
  static constexpr std::size_t records_kept = 64;
  static constexpr auto is_changing = ~std::uint64_t{0};  // identity of one that another group gets

  std::atomic<std::uint64_t> identity;   // identity_of(); 0: not used yet; or is_changing
  std::atomic<std::uint64_t> running;    // the first of the collectives it is in; 0: none
  std::atomic<std::uint64_t> asked;      // the last that was asked for, to be done later
  std::atomic<std::uint64_t> awaited;    // up to which a thread of the program waits; 0: none does
  std::atomic<std::uint64_t> completed;  // of the one that ended last
  std::atomic<std::uint64_t> has_left;   // 1: this rank calls nothing in it any more
  std::atomic<std::uint64_t> members;    // ranks in it; 0: not known
  std::atomic<std::int64_t> joined;      // since when it has joined; 0: it has not
  std::atomic<std::uint64_t> joins;      // that have come to their end, which is everybody's
  std::array<RecordCell, records_kept> records;

  [[nodiscard]] RecordCell& cell(std::uint64_t number) { return records[number % records_kept]; }
  [[nodiscard]] const RecordCell& cell(std::uint64_t number) const {
    return records[number % records_kept];
  }
  // Forgets all; readers pass the lane over until it has another identity.
  void clear();

  // Equal on the members of one group, different for different groups of the job.
  [[nodiscard]] static std::uint64_t identity_of(const CallHeader& call) {
    const auto group =
        (std::uint64_t{call.group} << 32 | static_cast<std::uint32_t>(call.first_rank)) + 1;
    return call.memory == MemoryKind::device ? group | of_devices : group;
  }
  // Identity of the same group's lane for the host's memory.
  [[nodiscard]] static std::uint64_t group_of(std::uint64_t identity) {
    return identity & ~of_devices;
  }
  [[nodiscard]] static bool is_of_devices(std::uint64_t identity) {
    return (identity & of_devices) != 0;
  }
  // Identity of a pending transfer's LaneStatus; ranks are below the bits that mark it.
  [[nodiscard]] static std::uint64_t identity_of_transfer(int rank, std::size_t cell) {
    return static_cast<std::uint64_t>(rank) << 32 | of_transfers | cell;
  }
  [[nodiscard]] static bool is_of_transfer(std::uint64_t identity) {
    return (identity & of_transfers) != 0;
  }

 private:
  static constexpr auto of_devices = std::uint64_t{1} << 31, of_transfers = std::uint64_t{1} << 30;
};

struct EventBlock {
  // Groups with lanes of their own. A further one gets the lane of a group that was left, or that
  // waits for nothing.
  static constexpr std::size_t most_lanes = 24;
  static constexpr std::size_t most_transfers = 32;  // pending ones; more are not recorded
  static constexpr std::int64_t has_left = -1;

  std::atomic<std::int64_t> beat;  // when the watch last looked, or has_left
  std::atomic<std::int32_t> process;
  std::atomic<std::uint64_t> process_namespace;
  // Nanoseconds that it had waited when that was the limit, so that everybody writes its file; 0:
  // the limit has not come.
  std::atomic<std::int64_t> waited_at_end;
  std::atomic<std::int64_t> callers;   // threads that have asked for anything; 2: several
  std::atomic<std::int64_t> says_why;  // 1: the rank is about to end the job, and says why itself
  std::array<Lane, most_lanes> lanes;
  std::array<RecordCell, most_transfers> transfers;  // pending, or the last that ended
};

// Nanoseconds of the monotonic clock.
[[nodiscard]] std::int64_t monotonic_now();

// Records every collective and transfer of this rank in its block.
class FlightRecorder final : public CollectiveListener {
 public:
  // The block lies in memory that `owner` keeps.
  explicit FlightRecorder(std::shared_ptr<EventBlock> block);

  void on_submit(const CollectiveCall& call) noexcept override;
  void on_start(const CollectiveCall& call) noexcept override;
  void on_finish(const CollectiveCall& call, bool failed) noexcept override;
  void on_wait(const CallHeader& call, bool begins) noexcept override;
  void on_group(const CollectiveCall& call) noexcept override;
  void on_leave(const CollectiveCall& call) noexcept override;
  void on_abort() noexcept override { block_->says_why = 1; }

 private:
  void transfer_submitted(const CollectiveCall& call);
  void change_transfer(const CallHeader& call,
                       const std::function<void(CollectiveRecord&)>& change);
  void note_caller();
  [[nodiscard]] bool is_quiet(const Lane& lane);
  Lane* lane_to_reuse();
  Lane* lane_of(std::uint64_t identity);
  [[nodiscard]] std::size_t number_of(const Lane& lane) const;

  std::shared_ptr<EventBlock> block_;
  std::thread::id caller_;  // the first thread that has asked for something
  std::mutex mutex_;        // several threads record, and a record has one writer at a time
  // Numbers of the collectives that the rank is in, by lane: a device has begun one while the
  // communication thread begins the next.
  std::array<std::vector<std::uint64_t>, EventBlock::most_lanes> in_progress_;
  std::array<std::uint64_t, EventBlock::most_lanes> last_uses_{};  // uses_ then
  std::uint64_t uses_ = 0;                                         // of any lane
  // Cells of pending transfers, by group, first rank and number.
  std::map<std::tuple<std::uint32_t, std::int32_t, std::uint64_t>, std::size_t> transfers_;
  std::deque<std::size_t> free_cells_;  // that which has been free for longest first
};

// State of a rank in one group, or in a transfer that it waits for. Holds ages, not times, because
// clocks of different nodes can't be compared.
struct LaneStatus {
  std::uint64_t identity = 0;
  std::uint64_t has_left = 0;      // 1: the rank calls nothing in it any more
  std::uint64_t members = 0;       // ranks in the group; 0: not known
  std::uint64_t joins = 0;         // of the rank, that have come to their end, which is everybody's
  std::uint64_t asked = 0;         // Lane::asked
  std::uint64_t is_awaited = 0;    // 1: a thread of the program waits for `running`, or for later
  std::int64_t joined = 0;         // nanoseconds that it has joined; 0: it has not
  std::int64_t waiting = 0;        // nanoseconds in `running`; see WaitingTimes
  std::int64_t completed_age = 0;  // since `completed` ended
  CollectiveRecord running;        // number 0: in none
  CollectiveRecord completed;      // number 0: none yet, or forgotten

  // CollectiveRecord::position() of the last collective that the rank has come to.
  [[nodiscard]] std::uint64_t came_to() const {
    return std::max(running.position(), completed.position());
  }
  // Position of the last that it has come to, or has asked another thread or a device to do.
  [[nodiscard]] std::uint64_t has_asked_to() const {
    return std::max(came_to(), asked << 16 | 0xFFFFU);
  }
};

// State of a rank, without its lanes.
struct RankState {
  std::int32_t rank = 0;
  std::int32_t process = 0;
  ProcessState state = ProcessState::unknown;
  bool is_watching = true;         // its watch has looked lately
  bool has_left = false;           // it has no communicator any more
  bool says_why = false;           // EventBlock::says_why
  bool has_one_caller = false;     // all that it has asked for, one thread has
  std::int64_t waited_at_end = 0;  // EventBlock::waited_at_end
  std::int64_t age = 0;  // nanoseconds since this was so; 0 where it was read from shared memory
};

struct RankStatus : RankState {
  std::vector<LaneStatus> lanes;

  [[nodiscard]] bool is_ending() const { return waited_at_end != 0; }
  [[nodiscard]] const LaneStatus* lane(std::uint64_t identity) const;
  // Nanoseconds in the call it has waited in longest; 0: in none.
  [[nodiscard]] std::int64_t longest_wait() const;
};

// Reads a block. Its watch counts as dead after `silence` nanoseconds without a look.
[[nodiscard]] RankStatus read_status(int rank, const EventBlock& block, std::int64_t silence);

// Writes a rank's last calls to FOLDER/kolo-watch-rank-00002.txt, and returns the path. Error where
// that fails.
std::filesystem::path dump_events(const std::filesystem::path& folder, const RankStatus& status,
                                  const EventBlock& block);

// Turns a status into bytes and back; nothing for bytes that make no sense.
[[nodiscard]] std::vector<std::byte> to_bytes(const RankStatus& status);
[[nodiscard]] std::optional<RankStatus> from_bytes(std::span<const std::byte> bytes);

}  // namespace kolo
