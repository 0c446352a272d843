#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/clock.h"
#include "kolo/base/file.h"

// Event files, written and read.
namespace kolo {

// What the names of event files begin with.
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

  // Tells TensorBoard to forget what earlier files of the folder say about `step` and later ones:
  // for a run that goes on from a checkpoint and is about to write them anew.
  void forget_from(std::int64_t step, double time = wall_time());

  void flush();
  // Flushes it to the device as well.
  void sync();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void append_record(const std::string& message);

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

// One value of one scalar.
struct ScalarEvent {
  std::string tag;  // UTF-8; what is none is replaced by U+FFFD
  std::int64_t step = 0;
  double time = 0;   // seconds since 1970
  double value = 0;  // most writers store single precision
};

// Voids what was written so far about `step` and later ones.
struct EventRestart {
  std::size_t position = 0;  // how many of the file's scalars come before it
  std::int64_t step = 0;
};

// What an event file says.
struct EventFile {
  std::vector<ScalarEvent> scalars;  // all, in the file's order; restarts are not applied
  std::vector<EventRestart> restarts;
  std::int64_t other_values = 0;  // histograms, images, texts: not kept
  // From which byte on it can't be read, and why; empty: it is whole. What comes before is in
  // `scalars`. So may a file end that is still written, or whose writer was killed.
  std::string damage;
};

// Reads an event file, whoever wrote it: TensorFlow 1 and 2, PyTorch, tensorboardX, kolo. Scalars
// are single values, and tensors of one number of 32 or 64 bits. Format: see TensorBoardWriter.
//
// Memory: the scalars, and one record, of at most the file's size. Time: a second for 200 MB, or
// three million scalars.
//
// InputError, naming the file: there is none, it can't be read, it is empty or not even its first
// record is an event's.
[[nodiscard]] EventFile read_event_file(const std::filesystem::path& path);

// What holds of a folder's event files, given in the order of their names: restarts void earlier
// values of all of them, as TensorBoard has it.
[[nodiscard]] std::vector<ScalarEvent> scalars_in_effect(std::span<const EventFile> files);

}  // namespace kolo
