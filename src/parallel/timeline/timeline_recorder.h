#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "kolo/base/file.h"
#include "kolo/comm/collective_call.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/timeline.h"

namespace kolo {

// An event for people to look at in chrome://tracing or https://ui.perfetto.dev.
struct TraceEvent {
  enum class Kind : std::uint8_t {
    span,     // from start to end; spans of one row lie inside or behind each other
    wait,     // from start to end, free to overlap others: viewers give it a track of its own
    instant,  // at start
  };

  Kind kind = Kind::span;
  int row = 0;                 // the event format's thread id
  std::int64_t start = 0;      // nanoseconds since the trace's origin
  std::int64_t end = 0;        // of spans and waits
  std::string name;            // UTF-8
  std::string arguments = {};  // JSON members that are shown when the event is selected
};

// The text as JSON, with its quotes.
[[nodiscard]] std::string json_string(std::string_view text);

// Writes events to a file in the Trace Event Format (JSON array form), one a line, from a thread of
// its own. The file can be loaded at any time: the format lets the closing bracket be missing.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
//
// Any thread may write, and never waits for the disk: events that come faster than it takes them
// are dropped and counted, and the file says how many were. After a failure to write (a full disk)
// the rest is dropped, and problem() tells.
class TraceWriter {
 public:
  // `process` is the number of this process, by which files of several merge, and its name is shown
  // beside its rows. `limit`: bytes that wait for the disk. Replaces an older file; InputError
  // where none can be made.
  TraceWriter(std::filesystem::path path, int process, std::string_view process_name,
              std::size_t limit = std::size_t{16} << 20);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  ~TraceWriter();  // writes the rest, and the closing bracket

  void write(const TraceEvent& event);
  // Rows are shown in the order of their numbers. Never dropped.
  void name_row(int row, std::string_view name);
  // Returns when everything written before is in the file.
  void flush();

  [[nodiscard]] std::uint64_t dropped() const;
  [[nodiscard]] std::string problem() const;  // empty: none

 private:
  void loop();
  void append(const TraceEvent& event);
  void append_metadata(std::string_view what, int row, std::string_view argument,
                       std::string_view value);
  void append_line(std::string_view line);

  std::filesystem::path path_;
  int process_;
  std::size_t limit_;
  FileDescriptor file_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, written_;
  std::string text_ = "[";      // to be written
  bool is_first_ = true;        // no event has been appended
  std::int64_t last_time_ = 0;  // of the events appended
  std::uint64_t wait_number_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t told_ = 0;  // dropped events that the file mentions
  std::uint64_t flushes_asked_ = 0, flushes_done_ = 0;
  bool is_stopping_ = false;
  std::string problem_;
  std::thread thread_;  // declared last: it uses everything above
};

// Turns what happens on a rank into events of its trace.
class Timeline::Recorder final : public CollectiveListener {
 public:
  // `origin`: what the steady clock of this rank shows (nanoseconds) at time 0 of the trace.
  Recorder(std::filesystem::path file, int rank, std::int64_t origin);

  void start();
  void stop();
  [[nodiscard]] bool is_active() const noexcept {
    return is_active_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::int64_t now() const noexcept;
  // Adds an event to the calling thread's row.
  void add(TraceEvent event) noexcept;

  void show_device(DeviceClock clock);
  // The device's present moment; unknown where there is no device to show.
  [[nodiscard]] DeviceClock::Moment device_now() noexcept;
  // Adds an event to the device's row for the calling thread, once the device has reached its end;
  // doesn't wait for that.
  void add_on_device(TraceEvent event, const DeviceClock::Moment& start) noexcept;

  void on_group(const CollectiveCall& call) noexcept override;
  void on_submit(const CollectiveCall& call) noexcept override;
  void on_start(const CollectiveCall& call) noexcept override;
  void on_finish(const CollectiveCall& call, bool failed) noexcept override;

  // Ends the file.
  void close();
  [[nodiscard]] std::string problem();

 private:
  struct Times {
    std::optional<std::int64_t> submitted, started;
  };
  // Group, whether it is a transfer, number, number in a task.
  using Key = std::tuple<std::uint32_t, bool, std::uint64_t, std::uint32_t>;
  [[nodiscard]] static Key key_of(const CollectiveCall& call) {
    return {call.group, is_transfer(call.collective), call.number, call.in_task};
  }

  [[nodiscard]] int row_of_this_thread();
  [[nodiscard]] int row_of_group(std::uint32_t group);
  void add_collective(const CollectiveCall& call, const Times& times, bool failed);
  struct DeviceSpan {
    TraceEvent event;
    DeviceClock::Moment start, end;
  };
  void write_device_spans(bool waits);
  [[nodiscard]] std::int64_t time_of(const DeviceClock::Moment& moment);

  const std::filesystem::path path_;
  const int rank_;
  const std::int64_t origin_;
  std::atomic<bool> is_active_ = false;

  std::mutex mutex_;
  std::unique_ptr<TraceWriter> writer_;  // from the first start() to close()
  std::string problem_;                  // of a writer that is gone
  bool is_closed_ = false;
  std::map<Key, Times> running_;
  std::vector<std::thread::id> threads_;
  std::vector<std::uint32_t> groups_;
  std::map<std::uint32_t, std::string> group_names_{{0, "all ranks"}};
  DeviceClock clock_;
  DeviceClock::Moment anchor_;           // a moment of the device whose time is known
  std::int64_t anchor_time_ = 0;         // this
  std::deque<DeviceSpan> device_spans_;  // that the device may not have come to
  std::vector<int> device_rows_;
};

}  // namespace kolo
