#include "parallel/timeline/trace_writer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr std::chrono::milliseconds longest_delay{500};        // until events are in the file
constexpr std::size_t unwritten_limit = std::size_t{1} << 20;  // bytes between two writes

FileDescriptor create(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    throw InputError(system_error_text(
        fmt::format("timeline: cannot write {}; choose a folder that can be written",
                    path.string()),
        errno));
  }
  return file;
}

double microseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1000;
}

std::string json_object(const std::vector<TraceEvent::Argument>& arguments) {
  std::string text = "{";
  for (const auto& [name, value] : arguments) {
    if (text.size() > 1) text += ',';
    const auto* const number = std::get_if<std::int64_t>(&value);
    text += json_string(name) + ':' +
            (number != nullptr ? fmt::format("{}", *number)
                               : json_string(std::get<std::string>(value)));
  }
  return text + '}';
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string json = "\"";
  for (const char letter : text) {
    if (static_cast<unsigned char>(letter) < 0x20) {
      fmt::format_to(std::back_inserter(json), "\\u{:04x}", static_cast<unsigned>(letter));
      continue;
    }
    if (letter == '"' || letter == '\\') json += '\\';
    json += letter;
  }
  return json + '"';
}

TraceWriter::TraceWriter(std::filesystem::path path, int process, std::string_view process_name,
                         std::size_t queue_limit)
    : path_(std::move(path)), process_(process), queue_limit_(queue_limit), file_(create(path_)) {
  text_ = "[";
  append_metadata("process_name", 0, "name", json_string(process_name));
  append_metadata("process_sort_index", 0, "sort_index", fmt::format("{}", process_));
  thread_ = std::thread([this] { loop(); });
}

TraceWriter::~TraceWriter() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void TraceWriter::write(TraceEvent event) {
  bool is_half_full = false;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.events.size() >= queue_limit_) {
      ++queue_.dropped;
      ++dropped_;
      return;
    }
    queue_.events.push_back(std::move(event));
    is_half_full = queue_.events.size() == queue_limit_ / 2 + 1;
  }
  if (is_half_full) wake_.notify_one();
}

void TraceWriter::name_row(int row, std::string name) {
  const std::lock_guard lock(mutex_);
  queue_.row_names.push_back({row, std::move(name)});
}

void TraceWriter::flush() {
  std::unique_lock lock(mutex_);
  const auto mine = ++flushes_asked_;
  wake_.notify_one();
  written_.wait(lock, [&] { return flushes_done_ >= mine; });
}

std::uint64_t TraceWriter::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::string TraceWriter::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void TraceWriter::loop() {
  Batch batch;
  write_text();  // the metadata: the file is valid from the beginning
  std::unique_lock lock(mutex_);
  for (bool is_last = false; !is_last;) {
    wake_.wait_for(lock, longest_delay, [&] {
      return is_stopping_ || flushes_asked_ > flushes_done_ ||
             queue_.events.size() > queue_limit_ / 2;
    });
    is_last = is_stopping_;
    const auto asked = flushes_asked_;
    std::swap(batch, queue_);
    lock.unlock();
    write_batch(batch);
    if (is_last) text_ += "\n]\n";
    write_text();
    batch.events.clear();
    batch.row_names.clear();
    batch.dropped = 0;
    lock.lock();
    flushes_done_ = asked;
    written_.notify_all();
  }
}

void TraceWriter::write_batch(const Batch& batch) {
  for (const auto& [row, name] : batch.row_names) {
    append_metadata("thread_name", row, "name", json_string(name));
    append_metadata("thread_sort_index", row, "sort_index", fmt::format("{}", row));
  }
  for (const TraceEvent& event : batch.events) append(event);
  if (batch.dropped == 0) return;
  append({.kind = TraceEvent::Kind::instant,
          .start = last_time_,
          .name = fmt::format("{} events dropped: the queue was full", batch.dropped)});
}

void TraceWriter::append(const TraceEvent& event) {
  last_time_ = std::max({last_time_, event.start, event.end});
  const auto begin = [&](const char* phase, std::int64_t time) {
    return fmt::format(R"({{"name":{},"ph":"{}","pid":{},"tid":{},"ts":{:.3f})",
                       json_string(event.name), phase, process_, event.row, microseconds(time));
  };
  const auto arguments = json_object(event.arguments);
  switch (event.kind) {
    case TraceEvent::Kind::span:
      append_line(fmt::format(R"({},"dur":{:.3f},"args":{}}})", begin("X", event.start),
                              microseconds(event.end - event.start), arguments));
      break;
    case TraceEvent::Kind::instant:
      append_line(fmt::format(R"({},"s":"p","args":{}}})", begin("i", event.start), arguments));
      break;
    case TraceEvent::Kind::wait: {
      // Viewers match a beginning and its end by category, number and process.
      const auto key = fmt::format(R"("cat":"wait","id2":{{"local":"{}"}})", ++wait_number_);
      append_line(fmt::format(R"({},{},"args":{}}})", begin("b", event.start), key, arguments));
      append_line(fmt::format(R"({},{}}})", begin("e", event.end), key));
      break;
    }
  }
}

void TraceWriter::append_metadata(std::string_view what, int row, std::string_view argument,
                                  std::string_view value) {
  append_line(fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"{}":{}}}}})", what,
                          process_, row, argument, value));
}

void TraceWriter::append_line(std::string_view line) {
  text_ += is_first_ ? "\n" : ",\n";
  text_ += line;
  is_first_ = false;
  if (text_.size() > unwritten_limit) write_text();
}

void TraceWriter::write_text() {
  const std::string text = std::exchange(text_, {});
  if (text.empty() || !problem().empty()) return;
  try {
    write_all(file_.get(), std::as_bytes(std::span(text)), path_);
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    problem_ = error.what();
  }
}

}  // namespace kolo
