#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/merge_timelines.h"

namespace kolo {

// A range of the host's time that NVIDIA's profilers show under its name (NVTX), with a number
// beside it. Costs next to nothing where none looks on; nothing where kolo is built without CUDA.
class ProfilerRange {
 public:
  ProfilerRange() = default;
  explicit ProfilerRange(std::string_view name, std::int64_t number = 0);
  ProfilerRange(ProfilerRange&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  ProfilerRange& operator=(ProfilerRange&& other) noexcept {
    end();
    id_ = std::exchange(other.id_, 0);
    return *this;
  }
  ~ProfilerRange() { end(); }

  void end() noexcept;

 private:
  std::uint64_t id_ = 0;  // 0: none, or nobody looks on
};

// Record of what a rank does when: one file per rank, FOLDER/rank-00003.json, for chrome://tracing
// or https://ui.perfetto.dev. It can be looked at while the training runs, and merge_timelines()
// makes one of all.
//
// Every collective of the communicator, and of sets of ranks made from it later, is a span on a row
// of the communication, named as CallOptions::name says ("bucket 3"); how long an asynchronous one
// was ready but waited for its turn is a span beside it ("bucket 3 waits"). What the program itself
// does it tells with spans, which lie on a row of the calling thread:
//
//   Timeline timeline = Timeline::from_environment(communicator);
//   while (...) {
//     const auto step = timeline.step(number);
//     const auto batch = [&] { const auto span = timeline.span("data wait"); return next(); }();
//     ...
//   }
//
// Times count from when rank 0 made its timeline. Ranks of its node read the same monotonic clock,
// so their times agree to the nanosecond; those of other nodes are placed by the nodes' wall
// clocks, as good as these are synchronized (typically a millisecond), once, when the timeline is
// made: a clock that is set later changes nothing.
//
// A device (show_device()) has a second one of each span, on a row of its own: from when the
// device gets to what the thread's stream had been given before the span, to when it is done with
// what it was given in it. So a wait for data is as long there as the device has nothing to do.
//
// Spans are ranges for NVIDIA's profilers too (ProfilerRange), whether the timeline is active or
// not.
//
// A handle: copies mean the same timeline; the last one finishes the file. Spans may come
// from any thread. A span costs about a microsecond and a collective a few, and nothing ever waits
// for the disk; where a timeline is inactive, a span costs a comparison.
class Timeline {
 public:
  class Span;

  // A timeline that is never active.
  Timeline() = default;

  // Makes one that is not started yet. Rank 0's folder counts, and is made where there is none.
  // Collective.
  Timeline(const Communicator& communicator, const std::filesystem::path& folder);

  // Makes one that is started if the environment variable KOLO_TIMELINE names a folder on rank 0;
  // otherwise never active. Collective. Throws what start() throws.
  [[nodiscard]] static Timeline from_environment(const Communicator& communicator);

  // Start and end recording, as often as you like, on any rank. The first
  // start() makes the file: InputError when it can't. stop() returns when the file holds all
  // events so far.
  void start() const;
  void stop() const;
  [[nodiscard]] bool is_active() const noexcept;

  // Shows the device's work from now on. Waits for the device, to know when its clock started.
  // `runtime`: as DeviceClock has it.
  void show_device(const torch::Device& device,
                   std::shared_ptr<const DeviceRuntime> runtime = nullptr) const;

  // A span from now to the end of the object that is returned, perhaps with a number to show. It
  // may outlive the timeline's last handle.
  [[nodiscard]] Span span(std::string_view name, const char* what = nullptr,
                          std::int64_t number = 0) const;
  // A span "step" with its number.
  [[nodiscard]] Span step(std::int64_t number) const;

  // Why events are missing in the file; empty when none are.
  [[nodiscard]] std::string problem() const;

  class Recorder;

 private:
  struct Attachment;
  std::shared_ptr<Attachment> attachment_;
};

class Timeline::Span {
 public:
  Span() = default;
  Span(Span&& other) noexcept = default;
  // This span ends where the other began.
  Span& operator=(Span&& other) noexcept;
  ~Span() { end(); }

  void end() noexcept;

 private:
  friend class Timeline;
  // Without a recorder the span is for profilers alone.
  Span(std::shared_ptr<Recorder> recorder, std::string_view name, const char* what,
       std::int64_t number);
  void end_at(std::int64_t time) noexcept;

  std::shared_ptr<Recorder> recorder_;  // none: nothing to tell
  std::string name_;
  const char* what_ = nullptr;
  std::int64_t number_ = 0;
  std::int64_t start_ = 0;
  DeviceClock::Moment device_start_;
  ProfilerRange range_;
};

}  // namespace kolo
