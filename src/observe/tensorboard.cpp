#include "kolo/observe/tensorboard.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "observe/event_records.h"
#include "tensorboard_event.pb.h"

namespace kolo {

namespace {

constexpr std::size_t buffer_size = 64 * 1024;

std::filesystem::path event_file_name(std::int64_t seconds, std::string_view suffix) {
  return fmt::format("{}{}.{}.{}{}", event_file_prefix, seconds, host_name(), ::getpid(), suffix);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder, std::string_view suffix) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // a failure shows when the file is opened
  const double now = wall_time();
  for (auto seconds = static_cast<std::int64_t>(now); !file_.is_open(); ++seconds) {
    path_ = folder / event_file_name(seconds, suffix);
    file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_.is_open() && errno != EEXIST) {
      throw Error(
          system_error_text(fmt::format("tensorboard: cannot create {}", path_.string()), errno));
    }
  }
  observe::tensorboard::Event event;
  event.set_wall_time(now);
  event.set_file_version("brain.Event:2");
  append_record(event.SerializeAsString());
  flush();
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const Error&) {  // a destructor has nobody to tell; call flush() to know
  }
}

void TensorBoardWriter::add_scalar(std::string_view tag, double value, std::int64_t step,
                                   double time) {
  observe::tensorboard::Event event;
  event.set_wall_time(time);
  event.set_step(step);
  auto& scalar = *event.mutable_summary()->add_value();
  scalar.set_tag(std::string(tag));
  scalar.set_simple_value(static_cast<float>(value));
  // TensorBoard takes the plugin from a tag's first value.
  if (known_tags_.emplace(tag).second) {
    scalar.mutable_metadata()->mutable_plugin_data()->set_plugin_name("scalars");
  }
  append_record(event.SerializeAsString());
}

void TensorBoardWriter::forget_from(std::int64_t step, double time) {
  observe::tensorboard::Event event;
  event.set_wall_time(time);
  event.set_step(step);
  event.mutable_session_log()->set_status(observe::tensorboard::SessionLog::START);
  append_record(event.SerializeAsString());
}

void TensorBoardWriter::flush() {
  // Emptied first: after a failed write nobody knows how much of it is in the file.
  const std::string bytes = std::exchange(pending_, {});
  write_all(file_.get(), std::as_bytes(std::span(bytes)), path_);
}

void TensorBoardWriter::sync() {
  flush();
  flush_to_disk(path_);
}

void TensorBoardWriter::append_record(const std::string& message) {
  append_event_record(pending_, message);
  if (pending_.size() >= buffer_size) flush();
}

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (entry.is_regular_file() && name.starts_with(event_file_prefix))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// What stays of a file; none where all of it does.
std::optional<std::string> kept_records(const fs::path& file, std::int64_t step,
                                        const std::function<bool(std::string_view)>& is_undone) {
  const auto is_dropped = [&](const observe::tensorboard::Event& event) {
    if (event.step() != step) return event.step() > step && event.has_summary();
    const auto& values = event.summary().value();
    return std::any_of(values.begin(), values.end(),
                       [&](const auto& value) { return is_undone(value.tag()); });
  };
  EventRecordReader records(file);
  std::string kept;
  bool is_whole = true;
  observe::tensorboard::Event event;
  while (const auto message = records.next()) {
    if (event.ParseFromArray(message->data(), static_cast<int>(message->size())) &&
        is_dropped(event)) {
      is_whole = false;
    } else {
      append_event_record(kept, *message);
    }
  }
  return is_whole ? std::nullopt : std::optional(std::move(kept));
}

}  // namespace

void drop_events_after(const fs::path& folder, std::int64_t step,
                       const std::function<bool(std::string_view)>& is_undone) {
  for (const auto& file : event_files(folder)) {
    const auto kept = kept_records(file, step, is_undone);
    if (!kept) continue;
    // Under a name that nobody takes for an event file, should this process end amid it.
    const auto aside = folder / ".curves.part";
    write_file_atomically(aside, *kept);
    rename_durably(aside, file);
  }
}

}  // namespace kolo
