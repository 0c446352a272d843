#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "kolo/base/clock.h"
#include "kolo/base/file.h"

// Event files of TensorBoard.
namespace kolo {

// Beginning of event files' names.
inline constexpr std::string_view event_file_prefix = "events.out.tfevents.";

// Writes an event file that TensorBoard shows. Source: TensorFlow's event.proto and summary.proto
// (the fields used here are in src/train/observe/tensorboard_event.proto) in TFRecord framing:
// length, its masked CRC-32C, the message, its masked CRC-32C.
//
// Events are buffered; flush() hands them to the system, as does the destructor (which can't report
// a failure) and a full buffer (64 KiB). One thread at a time.
class TensorBoardWriter {
 public:
  // Makes folder/events.out.tfevents.<seconds>.<host>.<pid>; the folder is made where it is
  // missing. A file of that name is never touched: the seconds go up until the name is free. Error:
  // the file can't be made or written.
  explicit TensorBoardWriter(const std::filesystem::path& folder);
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;
  ~TensorBoardWriter();

  // `tag` groups by its slashes ("loss/train"); `time` is in seconds since 1970. Stored in single
  // precision.
  void add_scalar(std::string_view tag, double value, std::int64_t step, double time = wall_time());

  // Tells TensorBoard to forget values of `step` and later in the folder's earlier files: a resumed
  // run writes them anew.
  void forget_from(std::int64_t step, double time = wall_time());

  void flush();
  // Flushes it to the device as well.
  void sync();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void append_event(const std::string& message);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::string pending_;
  std::set<std::string, std::less<>> known_tags_;
};

// Takes the values after `step` out of a folder's event files, and those of `step` whose tag
// `is_undone`, for a run that will write them anew: readers that don't know forget_from() would see
// them twice. A file is replaced whole or stays; nothing may be writing to it. Error: a file can't
// be read or replaced.
void drop_events_after(const std::filesystem::path& folder, std::int64_t step,
                       const std::function<bool(std::string_view tag)>& is_undone);

}  // namespace kolo
