#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kolo/comm/collective_call.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/timeline.h"
#include "parallel/timeline/trace_writer.h"

namespace kolo {

// Turns what happens on a rank into events of its trace.
class Timeline::Recorder final : public CollectiveListener {
 public:
  // `origin`: what the steady clock of this rank shows (nanoseconds) at time 0 of the trace.
  Recorder(std::filesystem::path file, int rank, std::int64_t origin);

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

}  // namespace kolo
