#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "kolo/base/file.h"

namespace kolo {

// An event for people to look at in chrome://tracing or https://ui.perfetto.dev.
struct TraceEvent {
  enum class Kind : std::uint8_t {
    span,     // from start to end; spans of one row lie inside or behind each other
    wait,     // from start to end, free to overlap others: viewers give it a place of its own
    instant,  // at start
  };
  using Argument = std::pair<const char*, std::variant<std::int64_t, std::string>>;

  Kind kind = Kind::span;
  int row = 0;                           // the event format's thread id
  std::int64_t start = 0;                // nanoseconds since the trace's origin
  std::int64_t end = 0;                  // of spans and waits
  std::string name;                      // UTF-8
  std::vector<Argument> arguments = {};  // shown when the event is selected; names are literals
};

// The text as JSON, with its quotes.
[[nodiscard]] std::string json_string(std::string_view text);

// Writes events to a file in the Trace Event Format (JSON array form), one a line, from a thread of
// its own. The file can be loaded at any time: the format lets the closing bracket be missing.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
//
// Any thread may write. That costs about a tenth of a microsecond and never waits for the disk:
// what does not fit the queue is dropped and counted, and the file says how many were. After a
// failure to write (a full disk) the rest is dropped, and problem() tells.
class TraceWriter {
 public:
  // `process`: the number of this process, so that files of different ones merge, and its name,
  // which is shown beside its rows. `queue_limit`: events that wait to be written. InputError: the
  // file can't be made. An older one of that name is replaced.
  TraceWriter(std::filesystem::path path, int process, std::string_view process_name,
              std::size_t queue_limit = 65536);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  ~TraceWriter();  // writes what is left, and the closing bracket

  void write(TraceEvent event);
  // Rows are shown in the order of their numbers. Never dropped.
  void name_row(int row, std::string name);
  // Returns when everything written before is in the file.
  void flush();

  [[nodiscard]] std::uint64_t dropped() const;
  [[nodiscard]] std::string problem() const;  // empty: none

 private:
  struct RowName {
    int row;
    std::string name;
  };
  struct Batch {
    std::vector<TraceEvent> events;
    std::vector<RowName> row_names;
    std::uint64_t dropped = 0;
  };

  void loop();
  void write_batch(const Batch& batch);
  void append(const TraceEvent& event);
  void append_metadata(std::string_view what, int row, std::string_view argument,
                       std::string_view value);
  void append_line(std::string_view line);
  void write_text();

  std::filesystem::path path_;
  int process_;
  std::size_t queue_limit_;
  FileDescriptor file_;
  std::string text_;            // of the writer thread
  bool is_first_ = true;        // no event has been written
  std::int64_t last_time_ = 0;  // of the events written
  std::uint64_t wait_number_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wake_, written_;
  Batch queue_;
  std::uint64_t dropped_ = 0;
  std::uint64_t flushes_asked_ = 0, flushes_done_ = 0;
  bool is_stopping_ = false;
  std::string problem_;
  std::thread thread_;  // the last: it uses all of the above
};

}  // namespace kolo
