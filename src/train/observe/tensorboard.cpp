#include "kolo/train/observe/tensorboard.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <boost/crc.hpp>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "tensorboard_event.pb.h"

namespace kolo {

namespace {

constexpr std::size_t buffer_size = 64 * 1024;

// TensorFlow's TFRecord: a message's length (8 bytes, little-endian), the length's masked CRC-32C
// (4), the message, its masked CRC-32C (4).
static_assert(std::endian::native == std::endian::little, "TFRecord numbers are little-endian");
constexpr std::size_t length_size = 8, checksum_size = 4;

// CRC-32C (Castagnoli), rotated and shifted as TFRecord asks for, so that the checksum of data that
// holds checksums stays useful.
std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xa282ead8U;
}

template <typename T>
std::string bytes_of(T number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

template <typename T>
T number_at(std::string_view bytes, std::size_t offset) {
  T number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

void append_in_frame(std::string& bytes, std::string_view message) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(message.size()));
  bytes += length;
  bytes += bytes_of(masked_crc(length));
  bytes += message;
  bytes += bytes_of(masked_crc(message));
}

// A file's messages, as far as it is whole: up to its end, or to where its writer was killed.
std::vector<std::string_view> whole_messages(std::string_view file) {
  constexpr auto head_size = length_size + checksum_size;
  std::vector<std::string_view> messages;
  while (file.size() >= head_size + checksum_size) {
    const auto length = number_at<std::uint64_t>(file, 0);
    if (number_at<std::uint32_t>(file, length_size) != masked_crc(file.substr(0, length_size)) ||
        length > file.size() - head_size - checksum_size)
      break;
    const auto message = file.substr(head_size, length);
    if (number_at<std::uint32_t>(file, head_size + length) != masked_crc(message)) break;
    messages.push_back(message);
    file.remove_prefix(head_size + length + checksum_size);
  }
  return messages;
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // a failure shows when the file is opened
  const double now = wall_time();
  for (auto seconds = static_cast<std::int64_t>(now); !file_.is_open(); ++seconds) {
    path_ = folder / fmt::format("{}{}.{}.{}", event_file_prefix, seconds, host_name(), ::getpid());
    file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_.is_open() && errno != EEXIST)
      throw Error(
          system_error_text(fmt::format("tensorboard: cannot create {}", path_.string()), errno));
  }
  observe::tensorboard::Event event;
  event.set_wall_time(now);
  event.set_file_version("brain.Event:2");
  append_event(event.SerializeAsString());
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
  if (known_tags_.emplace(tag).second)
    scalar.mutable_metadata()->mutable_plugin_data()->set_plugin_name("scalars");
  append_event(event.SerializeAsString());
}

void TensorBoardWriter::forget_from(std::int64_t step, double time) {
  observe::tensorboard::Event event;
  event.set_wall_time(time);
  event.set_step(step);
  event.mutable_session_log()->set_status(observe::tensorboard::SessionLog::START);
  append_event(event.SerializeAsString());
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

void TensorBoardWriter::append_event(const std::string& message) {
  append_in_frame(pending_, message);
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

// Records of a file that are kept; none where all of them are.
std::optional<std::string> kept_events(const fs::path& file, std::int64_t step,
                                       const std::function<bool(std::string_view)>& is_undone) {
  const auto is_dropped = [&](const observe::tensorboard::Event& event) {
    if (event.step() != step) return event.step() > step && event.has_summary();
    const auto& values = event.summary().value();
    return std::any_of(values.begin(), values.end(),
                       [&](const auto& value) { return is_undone(value.tag()); });
  };
  std::string kept;
  bool is_whole = true;
  observe::tensorboard::Event event;
  const auto bytes = read_text_file(file);
  for (const auto message : whole_messages(bytes)) {
    if (event.ParseFromArray(message.data(), static_cast<int>(message.size())) &&
        is_dropped(event)) {
      is_whole = false;
    } else {
      append_in_frame(kept, message);
    }
  }
  return is_whole ? std::nullopt : std::optional(std::move(kept));
}

}  // namespace

void drop_events_after(const fs::path& folder, std::int64_t step,
                       const std::function<bool(std::string_view)>& is_undone) {
  for (const auto& file : event_files(folder)) {
    const auto kept = kept_events(file, step, is_undone);
    if (!kept) continue;
    // Under a name that nobody takes for an event file, should this process end amid it.
    const auto aside = folder / ".curves.part";
    write_file_atomically(aside, *kept);
    rename_durably(aside, file);
  }
}

}  // namespace kolo
