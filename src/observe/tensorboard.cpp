#include "kolo/observe/tensorboard.h"

#include <array>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/host_name.h"
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

}  // namespace kolo
