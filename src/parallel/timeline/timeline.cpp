#include "kolo/parallel/timeline.h"

#include <array>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "kolo/parallel/object_collectives.h"
#include "parallel/timeline/timeline_recorder.h"

namespace kolo {

namespace {

template <typename Clock>
std::int64_t nanoseconds_of() {
  const auto time = Clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// Time that this rank's steady clock showed, or would have shown, when rank 0 read its clocks.
std::int64_t common_origin(const Communicator& communicator) {
  const auto steady = nanoseconds_of<std::chrono::steady_clock>();
  const auto wall = nanoseconds_of<std::chrono::system_clock>();
  std::array root = {steady, wall};
  communicator.broadcast(std::span(root), 0, {.name = "timeline's origin"});
  const auto& topology = communicator.topology();
  if (topology.node == topology.node_of_rank[0]) return root[0];
  return steady - (wall - root[1]);
}

std::string broadcast_folder(const Communicator& communicator, std::string_view folder) {
  return broadcast_bytes(communicator, folder, 0, {.name = "timeline's folder"});
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

Timeline::Timeline(const Communicator& communicator, const std::filesystem::path& folder) {
  const std::filesystem::path common = broadcast_folder(communicator, folder.string());
  const int rank = communicator.rank();
  attachment_ = std::make_shared<Attachment>(
      communicator, std::make_shared<Recorder>(common / fmt::format("rank-{:05}.json", rank), rank,
                                               common_origin(communicator)));
}

Timeline Timeline::from_environment(const Communicator& communicator) {
  const char* const value = std::getenv("KOLO_TIMELINE");
  const auto folder = broadcast_folder(communicator, value == nullptr ? "" : value);
  if (folder.empty()) return {};
  Timeline timeline(communicator, folder);
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
  try {
    TraceEvent event{.start = start_, .end = time, .name = std::move(name_)};
    if (what_ != nullptr) event.arguments = fmt::format(R"("{}":{})", what_, number_);
    recorder->add_on_device(event, device_start_);
    recorder->add(std::move(event));
  } catch (...) {  // without memory the event is lost, but the training goes on
  }
}

}  // namespace kolo
