#pragma once

#include <cstdint>
#include <optional>

#include "kolo/base/clock.h"
#include "kolo/train/observer.h"
#include "run/run_lock.h"

namespace kolo {

// Notes every step in the lock of the run's folder, and ends a run whose folder was taken away: at
// the begin and the end of epochs, and every few seconds. The first of the observers, so that none
// makes the folder anew.
class StepNotes final : public Observer {
 public:
  explicit StepNotes(RunLock& lock) : lock_(lock) {}
  void on_start(const TrainState& state, const std::optional<MetricSums>&) override {
    lock_.note_step(state.step);
  }
  void on_step(const StepReport& report) override {
    constexpr double few_seconds = 5;
    lock_.note_step(report.state.step);
    if (since_look_.seconds() > few_seconds) look();
  }
  void on_epoch_begin(const TrainState&, std::int64_t, std::int64_t) override { look(); }
  void on_epoch_end(const EpochReport&) override { look(); }
  void on_stop(const TrainState&) override { look(); }
  void on_finish(const TrainState&) override { look(); }

 private:
  void look() {
    lock_.require_held();
    since_look_.restart();
  }

  RunLock& lock_;
  Stopwatch since_look_;
};

}  // namespace kolo
