#include "kolo/train/observe/tensorboard.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <boost/nowide/utf/convert.hpp>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "tensorboard_event.pb.h"
#include "train/observe/event_records.h"

namespace kolo {

namespace {

constexpr std::size_t buffer_size = 64 * 1024;

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // a failure shows when the file is opened
  const double now = wall_time();
  for (auto seconds = static_cast<std::int64_t>(now); !file_.is_open(); ++seconds) {
    path_ = folder / fmt::format("{}{}.{}.{}", event_file_prefix, seconds, host_name(), ::getpid());
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

namespace {

using observe::tensorboard::Event;
using observe::tensorboard::SessionLog;
using observe::tensorboard::Summary;
using observe::tensorboard::Tensor;

bool has_one_element(const Tensor& tensor) {
  return std::ranges::all_of(tensor.tensor_shape().dim(),
                             [](const auto& dimension) { return dimension.size() == 1; });
}

// The element, from the list for its type or from the raw bytes; a tensor that has neither is zero.
template <typename T, typename List>
std::optional<double> element_of(const List& list, const std::string& content) {
  if (!list.empty()) return static_cast<double>(list[0]);
  T element{};
  if (content.empty()) return 0;
  if (content.size() != sizeof element) return std::nullopt;
  std::memcpy(&element, content.data(), sizeof element);
  return static_cast<double>(element);
}

std::optional<double> scalar_of(const Tensor& tensor) {
  if (!has_one_element(tensor)) return std::nullopt;
  const std::string& content = tensor.tensor_content();
  switch (tensor.dtype()) {
    case Tensor::DT_FLOAT:
      return element_of<float>(tensor.float_val(), content);
    case Tensor::DT_DOUBLE:
      return element_of<double>(tensor.double_val(), content);
    case Tensor::DT_INT32:
      return element_of<std::int32_t>(tensor.int_val(), content);
    case Tensor::DT_INT64:
      return element_of<std::int64_t>(tensor.int64_val(), content);
    default:
      return std::nullopt;
  }
}

// What is no UTF-8 is replaced, because pages and JSON can't hold it.
std::string utf8_of(const std::string& text) {
  const bool is_ascii = std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; });
  if (is_ascii) return text;
  return boost::nowide::utf::convert_string<char>(text.data(), text.data() + text.size());
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view why) {
  throw InputError(
      fmt::format("event file: {}: {}; expected TensorBoard events (a file named "
                  "events.out.tfevents.*)",
                  path.string(), why));
}

// Whether a file begins as people write: the usual mistake in naming a file.
bool begins_as_text(const std::filesystem::path& path) {
  std::string begin(64, '\0');
  const FileDescriptor file = open_regular_file(path);
  begin.resize(read_up_to(file.get(), std::as_writable_bytes(std::span(begin)), path));
  return std::ranges::all_of(
      begin, [](unsigned char c) { return c >= ' ' || c == '\n' || c == '\r' || c == '\t'; });
}

EventRecordReader open_records(const std::filesystem::path& path) {
  try {
    return EventRecordReader(path);
  } catch (const Error& error) {
    throw InputError(fmt::format("event file: {}", error.what()));
  }
}

// Records of something else (training samples, say) come out as an event without anything.
bool says_something(const Event& event) {
  return event.wall_time() != 0 || event.what_case() != Event::WHAT_NOT_SET;
}

}  // namespace

EventFile read_event_file(const std::filesystem::path& path) {
  EventRecordReader records = open_records(path);
  if (records.file_size() == 0) refuse(path, "the file is empty");
  EventFile file;
  std::map<std::string, bool> are_scalars;  // what a tag's tensors mean is said with the first one
  const auto scalar_in = [&](const std::string& tag,
                             const Summary::Value& value) -> std::optional<double> {
    if (value.has_simple_value()) return value.simple_value();
    if (!value.has_tensor()) return std::nullopt;
    const std::string& plugin = value.metadata().plugin_data().plugin_name();
    const auto known = are_scalars.try_emplace(tag, plugin.empty() || plugin == "scalars").first;
    return known->second ? scalar_of(value.tensor()) : std::nullopt;
  };
  Event event;
  std::string damage;
  bool is_first = true;
  while (const auto message = records.next()) {
    if (!event.ParseFromArray(message->data(), static_cast<int>(message->size())) ||
        (is_first && !says_something(event))) {
      damage = "a record is no event";
      break;
    }
    is_first = false;
    if (event.has_session_log() && event.session_log().status() == SessionLog::START)
      file.restarts.push_back({file.scalars.size(), event.step()});
    for (const Summary::Value& value : event.summary().value()) {
      const std::string& tag = value.tag().empty() ? value.node_name() : value.tag();
      if (const auto scalar = scalar_in(tag, value))
        file.scalars.push_back({utf8_of(tag), event.step(), event.wall_time(), *scalar});
      else
        ++file.other_values;
    }
  }
  if (damage.empty()) damage = records.damage();
  if (is_first && begins_as_text(path)) refuse(path, "not an event file, but text");
  if (is_first) refuse(path, fmt::format("not an event file: {} at byte 0", damage));
  if (!damage.empty()) {
    file.damage = fmt::format("{}: {} at byte {} of {}; what comes before was read ({} values)",
                              path.string(), damage, records.position(), records.file_size(),
                              file.scalars.size());
  }
  return file;
}

std::vector<ScalarEvent> scalars_in_effect(std::span<const EventFile> files) {
  // Backwards: a value holds when no later restart is at its step or before.
  std::vector<ScalarEvent> scalars;
  std::optional<std::int64_t> first_void_step;
  const auto apply = [&](const EventRestart& restart) {
    first_void_step = std::min(first_void_step.value_or(restart.step), restart.step);
  };
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    auto restart = file->restarts.rbegin();
    const auto none = file->restarts.rend();
    for (std::size_t i = file->scalars.size(); i-- > 0;) {
      for (; restart != none && restart->position > i; ++restart) apply(*restart);
      const ScalarEvent& scalar = file->scalars[i];
      if (!first_void_step || scalar.step < *first_void_step) scalars.push_back(scalar);
    }
    for (; restart != none; ++restart) apply(*restart);
  }
  std::ranges::reverse(scalars);
  return scalars;
}

}  // namespace kolo
