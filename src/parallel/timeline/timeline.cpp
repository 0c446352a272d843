#include "kolo/parallel/timeline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/machine.h"
#include "parallel/timeline/trace_writer.h"

namespace kolo {

// Turns what happens on a rank into events of its trace.
class Timeline::Recorder final : public CollectiveListener {
 public:
  // `origin`: what the steady clock of this rank shows (nanoseconds) at time 0 of the trace.
  Recorder(std::filesystem::path file, int rank, std::int64_t origin, std::size_t queue_limit);

  void start();
  void stop();
  [[nodiscard]] bool is_active() const noexcept {
    return is_active_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::int64_t now() const noexcept;
  // For the calling thread's row.
  void add(TraceEvent event) noexcept;

  void show_device(DeviceClock clock);
  // Unknown where there is no device to show.
  [[nodiscard]] DeviceClock::Moment device_now() noexcept;
  // For the row of the device's work for the calling thread, when the device has come to its end,
  // which is not waited for.
  void add_on_device(TraceEvent event, const DeviceClock::Moment& start) noexcept;

  void on_submit(const CollectiveCall& call) noexcept override;
  void on_start(const CollectiveCall& call) noexcept override;
  void on_finish(const CollectiveCall& call, bool failed) noexcept override;

  // Ends the file.
  void close();
  [[nodiscard]] std::filesystem::path file();
  [[nodiscard]] std::string problem();

 private:
  struct Times {
    std::optional<std::int64_t> submitted, started;
  };
  // Group, whether it is a transfer, number, part.
  using Key = std::tuple<std::uint32_t, bool, std::uint64_t, std::uint32_t>;
  [[nodiscard]] static Key key_of(const CollectiveCall& call) {
    return {call.group, is_transfer(call.collective), call.number, call.part};
  }

  [[nodiscard]] int row_of_this_thread();
  [[nodiscard]] int row_of_group(std::uint32_t group);
  void add_collective(const CollectiveCall& call, const Times& times, bool failed);
  struct DeviceSpan {
    TraceEvent event;
    DeviceClock::Moment start, end;
  };
  void write_device_spans(bool waits);
  [[nodiscard]] std::int64_t time_of(const DeviceClock::Moment& moment);

  const std::filesystem::path path_;
  const int rank_;
  const std::int64_t origin_;
  const std::size_t queue_limit_;
  std::atomic<bool> is_active_ = false;

  std::mutex mutex_;
  std::unique_ptr<TraceWriter> writer_;  // from the first start() to close()
  std::string problem_;                  // of a writer that is gone
  bool is_closed_ = false;
  std::map<Key, Times> running_;
  std::vector<std::thread::id> threads_;
  std::vector<std::uint32_t> groups_;
  DeviceClock clock_;
  DeviceClock::Moment anchor_;           // a moment of the device whose time is known
  std::int64_t anchor_time_ = 0;         // this
  std::deque<DeviceSpan> device_spans_;  // that the device may not have come to
  std::vector<int> device_rows_;
};

namespace {

constexpr int first_group_row = 1000;   // after the threads'
constexpr int first_device_row = 2000;  // in the order of the threads'

// The place of a value in a list, where it is put if it is new.
template <typename T>
std::pair<std::size_t, bool> find_or_add(std::vector<T>& values, const T& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  const auto place = static_cast<std::size_t>(found - values.begin());
  if (found != values.end()) return {place, false};
  values.push_back(value);
  return {place, true};
}

std::vector<TraceEvent::Argument> arguments_of(const CollectiveCall& call, bool failed) {
  std::vector<TraceEvent::Argument> arguments = {
      {"collective", call.describe()},
      {"count", call.count},
      {"dtype", std::string(name_of(call.type))},
      {"bytes", call.count * static_cast<std::int64_t>(size_of(call.type))},
      {"number", static_cast<std::int64_t>(call.number)},
      {"group", static_cast<std::int64_t>(call.group)}};
  if (is_transfer(call.collective)) {
    arguments.emplace_back("peer", static_cast<std::int64_t>(call.peer));
    arguments.emplace_back("tag", static_cast<std::int64_t>(call.tag));
  }
  if (failed) arguments.emplace_back("result", "failed");
  return arguments;
}

}  // namespace

Timeline::Recorder::Recorder(std::filesystem::path file, int rank, std::int64_t origin,
                             std::size_t queue_limit)
    : path_(std::move(file)), rank_(rank), origin_(origin), queue_limit_(queue_limit) {}

void Timeline::Recorder::start() {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  if (!writer_) {
    std::error_code error;
    std::filesystem::create_directories(path_.parent_path(), error);  // the writer says what fails
    writer_ = std::make_unique<TraceWriter>(
        path_, TraceWriterOptions{.process = rank_,
                                  .process_name = fmt::format("rank {} ({})", rank_, host_name()),
                                  .queue_limit = queue_limit_});
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
  const auto [place, is_new] = find_or_add(threads_, std::this_thread::get_id());
  const int row = static_cast<int>(place) + 1;
  if (is_new) writer_->name_row(row, fmt::format("thread {}", row));
  return row;
}

int Timeline::Recorder::row_of_group(std::uint32_t group) {
  const auto [place, is_new] = find_or_add(groups_, group);
  const int row = first_group_row + static_cast<int>(place);
  if (is_new) {
    writer_->name_row(
        row, group == 0 ? "communication" : fmt::format("communication of group {}", group));
  }
  return row;
}

// Memory that runs out is no reason to end a training in a place that can't throw: the event is
// lost.
void Timeline::Recorder::add(TraceEvent event) noexcept try {
  const std::lock_guard lock(mutex_);
  if (!is_active()) return;
  event.row = row_of_this_thread();
  writer_->write(std::move(event));
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
    auto span = std::move(device_spans_.front());
    device_spans_.pop_front();
    span.event.start = time_of(span.start);
    span.event.end = time_of(span.end);
    writer_->write(std::move(span.event));
  }
} catch (const Error&) {  // a device that fails tells whoever waits for its work
  device_spans_.clear();
}

// Devices tell times in numbers that are exact for some seconds: the anchor follows.
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
                    .arguments = {{"number", static_cast<std::int64_t>(call.number)}}});
  }
  writer_->write({.row = row,
                  .start = *times.started,
                  .end = now(),
                  .name = name,
                  .arguments = arguments_of(call, failed)});
}

std::filesystem::path Timeline::Recorder::file() {
  const std::lock_guard lock(mutex_);
  return writer_ ? path_ : std::filesystem::path();
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

namespace {

// Both clocks at one moment, in nanoseconds.
struct ClockReading {
  std::int64_t steady = 0;
  std::int64_t wall = 0;
};

template <typename Clock>
std::int64_t nanoseconds_of() {
  const auto time = Clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

ClockReading read_clocks() {
  return {nanoseconds_of<std::chrono::steady_clock>(), nanoseconds_of<std::chrono::system_clock>()};
}

// What this rank's steady clock showed, or would have shown, when rank 0 read its clocks.
std::int64_t common_origin(const Communicator& communicator) {
  const ClockReading mine = read_clocks();
  std::array<std::int64_t, 2> root = {mine.steady, mine.wall};
  communicator.broadcast(std::span(root), 0, {.name = "timeline's origin"});
  const auto& topology = communicator.topology();
  if (topology.node == topology.node_of_rank[0]) return root[0];
  return mine.steady - (mine.wall - root[1]);
}

std::string broadcast_text(const Communicator& communicator, std::string text) {
  auto size = static_cast<std::int64_t>(text.size());
  communicator.broadcast(std::span(&size, 1), 0, {.name = "timeline's folder"});
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) communicator.broadcast(std::span(text), 0, {.name = "timeline's folder"});
  return text;
}

}  // namespace

// The recorder in its place among the communicator's listeners. Spans and communicators may keep
// the recorder longer.
struct Timeline::Attachment {
  Communicator communicator;
  std::shared_ptr<Recorder> recorder;

  Attachment(Communicator its, std::shared_ptr<Recorder> made)
      : communicator(std::move(its)), recorder(std::move(made)) {
    communicator.add_listener(recorder);
  }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  ~Attachment() {
    communicator.remove_listener(recorder);
    recorder->close();
  }
};

Timeline::Timeline(const Communicator& communicator, const TimelineOptions& options) {
  const std::filesystem::path folder = broadcast_text(communicator, options.folder.string());
  const int rank = communicator.rank();
  attachment_ = std::make_shared<Attachment>(
      communicator, std::make_shared<Recorder>(folder / fmt::format("rank-{:05}.json", rank), rank,
                                               common_origin(communicator), options.queue_limit));
}

Timeline Timeline::from_environment(const Communicator& communicator) {
  const char* const value = std::getenv("KOLO_TIMELINE");
  const auto folder = broadcast_text(communicator, value == nullptr ? "" : value);
  if (folder.empty()) return {};
  Timeline timeline(communicator, {.folder = folder});
  timeline.start();
  return timeline;
}

void Timeline::start() const {
  if (attachment_) attachment_->recorder->start();
}

void Timeline::stop() const {
  if (attachment_) attachment_->recorder->stop();
}

bool Timeline::is_active() const noexcept {
  return attachment_ && attachment_->recorder->is_active();
}

Timeline::Span Timeline::span(std::string_view name) const {
  return span(name, nullptr, 0);
}

Timeline::Span Timeline::span(std::string_view name, const char* what, std::int64_t number) const {
  return {is_active() ? attachment_->recorder : nullptr, name, what, number};
}

Timeline::Span Timeline::step(std::int64_t number) const {
  return span("step", "step", number);
}

void Timeline::show_device(const torch::Device& device,
                           std::shared_ptr<const DeviceRuntime> runtime) const {
  if (attachment_) attachment_->recorder->show_device(DeviceClock(device, std::move(runtime)));
}

void Timeline::mark(std::string_view name) const {
  if (!is_active()) return;
  attachment_->recorder->add({.kind = TraceEvent::Kind::instant,
                              .start = attachment_->recorder->now(),
                              .name = std::string(name)});
}

std::filesystem::path Timeline::file() const {
  return attachment_ ? attachment_->recorder->file() : std::filesystem::path();
}

std::string Timeline::problem() const {
  return attachment_ ? attachment_->recorder->problem() : std::string();
}

Timeline::Span::Span(std::shared_ptr<Recorder> recorder, std::string_view name, const char* what,
                     std::int64_t number)
    : recorder_(std::move(recorder)), range_(name, number) {
  if (!recorder_) return;
  name_ = name;
  what_ = what;
  number_ = number;
  start_ = recorder_->now();
  device_start_ = recorder_->device_now();
}

Timeline::Span& Timeline::Span::operator=(Span&& other) noexcept {
  if (this == &other) return *this;
  if (other.recorder_)
    end_at(other.start_);
  else
    end();
  recorder_ = std::move(other.recorder_);
  name_ = std::move(other.name_);
  what_ = other.what_;
  number_ = other.number_;
  start_ = other.start_;
  device_start_ = std::move(other.device_start_);
  range_ = std::move(other.range_);
  return *this;
}

void Timeline::Span::end() noexcept {
  range_.end();
  if (recorder_) end_at(recorder_->now());
}

void Timeline::Span::end_at(std::int64_t time) noexcept {
  const auto recorder = std::exchange(recorder_, nullptr);
  if (!recorder) return;
  TraceEvent event{.start = start_, .end = time, .name = std::move(name_)};
  try {
    if (what_ != nullptr) event.arguments.emplace_back(what_, number_);
  } catch (const std::bad_alloc&) {  // the event without its number
  }
  if (device_start_.is_known()) {
    try {
      recorder->add_on_device(event, device_start_);
    } catch (const std::bad_alloc&) {  // the host's alone
    }
  }
  recorder->add(std::move(event));
}

}  // namespace kolo
