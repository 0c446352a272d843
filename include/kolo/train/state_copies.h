#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kolo/checkpoint/checkpoint_writer.h"
#include "kolo/train/observer.h"
#include "kolo/train/recorders.h"

namespace kolo {

// Copies of a training's state that several ranks keep, each for itself, between the checkpoints:
// an extra, which never ends a training and never keeps it waiting for a disk. Every rank has one,
// with the same steps between two copies.
//
// A copy is written in the background. Not at once, but when the step after it is done, or a
// validation begins: until then no rank knows that rank 0 has recorded all that was before the
// copy, and a run that went on from it would lack that. One is written at a time: what comes
// meanwhile is left out. After an error there are no more copies, and the last good one stays.
class StateCopies final : public Observer {
 public:
  struct Work {
    // On every rank at each copy's step; may be collective.
    std::function<void()> before = [] {};
    // What is to be written; empty: another rank writes. Nothing: no copy now. Not asked for while
    // one is on its way, whose tensors it may write over, but for a `collective` one, which all
    // ranks that have it make together.
    std::function<std::optional<Snapshot>()> take = {};
    bool is_collective = false;
    // Before the writing of each: an Error where that would not go well.
    std::function<void()> check = [] {};
    std::function<void(const std::string&)> warn = [](const auto&) {};
  };

  // `store`: where this rank writes, which must outlive it; none: it doesn't.
  StateCopies(std::int64_t every_steps, CheckpointStore* store, Work work);

  void on_step(const StepReport& report) override;
  void on_validation(std::int64_t done, std::int64_t batches) override;
  void on_stop(const TrainState&) override { end(); }
  void on_finish(const TrainState&) override { end(); }

 private:
  void take(std::int64_t step);
  void write();
  void end();
  template <typename Part>
  void attempt(const Part& part);

  std::int64_t every_steps_;
  Work work_;
  std::optional<CheckpointWriter> writer_;
  std::optional<Snapshot> taken_;  // that waits for the next step
  std::int64_t taken_step_ = 0;
  bool is_over_ = false;  // after an error
};

}  // namespace kolo
