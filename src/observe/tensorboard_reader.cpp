#include "kolo/observe/tensorboard_reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <boost/nowide/utf/convert.hpp>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "observe/event_records.h"
#include "tensorboard_event.pb.h"

namespace kolo {

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

// Sorts a file's events into what an EventFile has.
class EventSorter {
 public:
  void add(const Event& event) {
    if (event.has_session_log() && event.session_log().status() == SessionLog::START)
      file_.restarts.push_back({file_.scalars.size(), event.step()});
    for (const Summary::Value& value : event.summary().value()) add(event, value);
  }
  [[nodiscard]] EventFile take() { return std::move(file_); }

 private:
  void add(const Event& event, const Summary::Value& value) {
    const std::string& tag = value.tag().empty() ? value.node_name() : value.tag();
    std::optional<double> scalar;
    if (value.has_simple_value()) scalar = value.simple_value();
    if (value.has_tensor() && is_of_scalars(tag, value)) scalar = scalar_of(value.tensor());
    if (scalar) {
      file_.scalars.push_back({utf8_of(tag), event.step(), event.wall_time(), *scalar});
    } else {
      ++file_.other_values;
    }
  }

  // What a tag's tensors mean is said with the first one.
  bool is_of_scalars(const std::string& tag, const Summary::Value& value) {
    const auto known = is_of_scalars_.find(tag);
    if (known != is_of_scalars_.end()) return known->second;
    const std::string& plugin = value.metadata().plugin_data().plugin_name();
    return is_of_scalars_[tag] = plugin.empty() || plugin == "scalars";
  }

  EventFile file_;
  std::map<std::string, bool> is_of_scalars_;
};

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

bool parse(std::string_view message, Event& event) {
  return event.ParseFromArray(message.data(), static_cast<int>(message.size()));
}

// Records of something else (training samples, say) come out as an event without anything.
bool says_something(const Event& event) {
  return event.wall_time() != 0 || event.what_case() != Event::WHAT_NOT_SET;
}

}  // namespace

EventFile read_event_file(const std::filesystem::path& path) {
  EventRecordReader records = open_records(path);
  if (records.file_size() == 0) refuse(path, "the file is empty");
  Event event;
  EventSorter sorter;
  std::string damage;
  bool is_first = true;
  while (const auto message = records.next()) {
    if (!parse(*message, event) || (is_first && !says_something(event))) {
      damage = "a record is no event";
      break;
    }
    sorter.add(event);
    is_first = false;
  }
  if (damage.empty()) damage = records.damage();
  if (is_first && begins_as_text(path)) refuse(path, "not an event file, but text");
  if (is_first) refuse(path, fmt::format("not an event file: {} at byte 0", damage));
  EventFile file = sorter.take();
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
