#include "parallel/timeline/timeline_recorder.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"

namespace kolo {

namespace {

constexpr std::chrono::milliseconds longest_delay{500};  // until events are in the file

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
                         std::size_t limit)
    : path_(std::move(path)), process_(process), limit_(limit), file_(create(path_)) {
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

void TraceWriter::write(const TraceEvent& event) {
  const std::lock_guard lock(mutex_);
  if (text_.size() < limit_)
    append(event);
  else
    ++dropped_;
  if (text_.size() > limit_ / 2) wake_.notify_one();
}

void TraceWriter::name_row(int row, std::string_view name) {
  const std::lock_guard lock(mutex_);
  append_metadata("thread_name", row, "name", json_string(name));
  append_metadata("thread_sort_index", row, "sort_index", fmt::format("{}", row));
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
  std::unique_lock lock(mutex_);
  for (bool is_last = false; !is_last;) {
    wake_.wait_for(lock, longest_delay, [&] {
      return is_stopping_ || flushes_asked_ > flushes_done_ || text_.size() > limit_ / 2;
    });
    is_last = is_stopping_;
    const auto asked = flushes_asked_;
    if (const auto dropped = dropped_ - std::exchange(told_, dropped_); dropped > 0) {
      append({.kind = TraceEvent::Kind::instant,
              .start = last_time_,
              .name = fmt::format("{} events dropped: the queue was full", dropped)});
    }
    if (is_last) text_ += "\n]\n";
    const std::string text = std::exchange(text_, {});
    std::string problem = problem_;
    lock.unlock();
    try {
      if (problem.empty()) write_all(file_.get(), std::as_bytes(std::span(text)), path_);
    } catch (const Error& error) {
      problem = error.what();
    }
    lock.lock();
    problem_ = problem;
    flushes_done_ = asked;
    written_.notify_all();
  }
}

void TraceWriter::append(const TraceEvent& event) {
  last_time_ = std::max({last_time_, event.start, event.end});
  const auto begin = [&](const char* phase, std::int64_t time) {
    return fmt::format(R"({{"name":{},"ph":"{}","pid":{},"tid":{},"ts":{:.3f})",
                       json_string(event.name), phase, process_, event.row, microseconds(time));
  };
  const auto& arguments = event.arguments;
  switch (event.kind) {
    case TraceEvent::Kind::span:
      append_line(fmt::format(R"({},"dur":{:.3f},"args":{{{}}}}})", begin("X", event.start),
                              microseconds(event.end - event.start), arguments));
      break;
    case TraceEvent::Kind::instant:
      append_line(fmt::format(R"({},"s":"p","args":{{{}}}}})", begin("i", event.start), arguments));
      break;
    case TraceEvent::Kind::wait: {
      // Viewers match a beginning and its end by category, number and process.
      const auto key = fmt::format(R"("cat":"wait","id2":{{"local":"{}"}})", ++wait_number_);
      append_line(fmt::format(R"({},{},"args":{{{}}}}})", begin("b", event.start), key, arguments));
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
}

namespace {

constexpr int first_group_row = 1000;   // after the threads'
constexpr int first_device_row = 2000;  // in the order of the threads'

// Index of a value in a list, to which a new one is appended.
template <typename T>
std::pair<std::size_t, bool> find_or_add(std::vector<T>& values, const T& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  const auto index = static_cast<std::size_t>(found - values.begin());
  if (found != values.end()) return {index, false};
  values.push_back(value);
  return {index, true};
}

std::string arguments_of(const CollectiveCall& call, bool failed) {
  return fmt::format(
      R"("collective":{},"count":{},"dtype":"{}","bytes":{},"number":{},"group":{}{}{})",
      json_string(call.describe()), call.count, name_of(call.type),
      call.count * static_cast<std::int64_t>(size_of(call.type)), call.number, call.group,
      is_transfer(call.collective) ? fmt::format(R"(,"peer":{},"tag":{})", call.peer, call.tag)
                                   : "",
      failed ? R"(,"result":"failed")" : "");
}

}  // namespace

Timeline::Recorder::Recorder(std::filesystem::path file, int rank, std::int64_t origin)
    : path_(std::move(file)), rank_(rank), origin_(origin) {}

void Timeline::Recorder::start() {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  if (!writer_) {
    std::error_code error;
    std::filesystem::create_directories(path_.parent_path(), error);  // the writer says what fails
    writer_ = std::make_unique<TraceWriter>(path_, rank_,
                                            fmt::format("rank {} ({})", rank_, host_name()));
  }
  is_active_.store(true, std::memory_order_release);
}

void Timeline::Recorder::stop() {
  const std::lock_guard lock(mutex_);
  write_device_spans(/*waits=*/true);
  is_active_ = false;
  running_.clear();
  if (writer_) writer_->flush();
}

void Timeline::Recorder::close() {
  const std::lock_guard lock(mutex_);
  write_device_spans(/*waits=*/true);
  is_active_ = false;
  is_closed_ = true;
  running_.clear();
  if (writer_) problem_ = writer_->problem();
  writer_.reset();
}

std::int64_t Timeline::Recorder::now() const noexcept {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count() - origin_;
}

int Timeline::Recorder::row_of_this_thread() {
  const auto [index, is_new] = find_or_add(threads_, std::this_thread::get_id());
  const int row = static_cast<int>(index) + 1;
  if (is_new) writer_->name_row(row, fmt::format("thread {}", row));
  return row;
}

int Timeline::Recorder::row_of_group(std::uint32_t group) {
  const auto [index, is_new] = find_or_add(groups_, group);
  const int row = first_group_row + static_cast<int>(index);
  if (is_new) {
    const auto& name = group_names_[group];
    writer_->name_row(row,
                      "communication: " + (name.empty() ? fmt::format("group {}", group) : name));
  }
  return row;
}

// Memory that runs out is no reason to end a training where nothing can be thrown: the event is
// lost.
void Timeline::Recorder::add(TraceEvent event) noexcept try {
  const std::lock_guard lock(mutex_);
  if (!is_active()) return;
  event.row = row_of_this_thread();
  writer_->write(event);
} catch (...) {
}

void Timeline::Recorder::show_device(DeviceClock clock) {
  if (!clock.is_of_device()) return;
  auto anchor = clock.now();
  anchor.wait();
  const std::lock_guard lock(mutex_);
  clock_ = std::move(clock);
  anchor_ = std::move(anchor);
  anchor_time_ = now();
}

DeviceClock::Moment Timeline::Recorder::device_now() noexcept try {
  const std::lock_guard lock(mutex_);
  return clock_.is_of_device() ? clock_.now() : DeviceClock::Moment();
} catch (...) {  // a device that fails tells whoever waits for its work
  return {};
}

void Timeline::Recorder::add_on_device(TraceEvent event, const DeviceClock::Moment& start) noexcept
    try {
  const std::lock_guard lock(mutex_);
  if (!is_active() || !start.is_known()) return;
  auto end = clock_.now();
  if (!end.is_known()) return;
  const int thread_row = row_of_this_thread();
  event.row = first_device_row + thread_row;
  if (find_or_add(device_rows_, event.row).second)
    writer_->name_row(event.row, fmt::format("device, for thread {}", thread_row));
  device_spans_.push_back({std::move(event), start, std::move(end)});
  write_device_spans(/*waits=*/false);
} catch (...) {
}

void Timeline::Recorder::write_device_spans(bool waits) try {
  while (!device_spans_.empty() && (waits || device_spans_.front().end.is_past())) {
    auto& span = device_spans_.front();
    span.event.start = time_of(span.start);
    span.event.end = time_of(span.end);
    writer_->write(span.event);
    device_spans_.pop_front();
  }
} catch (const Error&) {  // a device that fails tells whoever waits for its work
  device_spans_.clear();
}

// Device times are exact for some seconds only, so the anchor follows.
std::int64_t Timeline::Recorder::time_of(const DeviceClock::Moment& moment) {
  constexpr double farthest = 5;
  const double seconds = moment.seconds_since(anchor_);
  const auto time = anchor_time_ + static_cast<std::int64_t>(1e9 * seconds);
  if (seconds > farthest) {
    anchor_ = moment;
    anchor_time_ = time;
  }
  return time;
}

void Timeline::Recorder::on_group(const CollectiveCall& call) noexcept try {
  const std::lock_guard lock(mutex_);
  group_names_[call.group] = call.name;
} catch (...) {
}

void Timeline::Recorder::on_submit(const CollectiveCall& call) noexcept try {
  if (!is_active()) return;
  const std::lock_guard lock(mutex_);
  running_[key_of(call)].submitted = now();
} catch (...) {
}

void Timeline::Recorder::on_start(const CollectiveCall& call) noexcept try {
  if (!is_active()) return;
  const std::lock_guard lock(mutex_);
  running_[key_of(call)].started = now();
} catch (...) {
}

void Timeline::Recorder::on_finish(const CollectiveCall& call, bool failed) noexcept try {
  if (!is_active()) return;
  const std::lock_guard lock(mutex_);
  if (const auto found = running_.extract(key_of(call)); found && is_active())
    add_collective(call, found.mapped(), failed);
} catch (...) {
}

void Timeline::Recorder::add_collective(const CollectiveCall& call, const Times& times,
                                        bool failed) {
  if (!times.started) return;  // the timeline was started in between
  const int row = row_of_group(call.group);
  const std::string name = call.name.empty() ? std::string(name_of(call.collective)) : call.name;
  if (times.submitted) {
    writer_->write({.kind = TraceEvent::Kind::wait,
                    .row = row,
                    .start = *times.submitted,
                    .end = *times.started,
                    .name = name + " waits",
                    .arguments = fmt::format(R"("number":{})", call.number)});
  }
  writer_->write({.row = row,
                  .start = *times.started,
                  .end = now(),
                  .name = name,
                  .arguments = arguments_of(call, failed)});
}

std::string Timeline::Recorder::problem() {
  const std::lock_guard lock(mutex_);
  if (!writer_) return problem_;
  if (auto problem = writer_->problem(); !problem.empty()) return problem;
  if (writer_->dropped() == 0) return {};
  return fmt::format(
      "timeline: rank {}: {} events were dropped, because they came faster than the "
      "disk takes them",
      rank_, writer_->dropped());
}

}  // namespace kolo
