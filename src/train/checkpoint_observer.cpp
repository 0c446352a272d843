#include "kolo/train/checkpoint_observer.h"

#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "base/openmp.h"
#include "kolo/base/clock.h"
#include "kolo/comm/device.h"
#include "kolo/train/observe/format.h"

namespace kolo {

std::uint64_t CheckpointObserver::copy_bytes() const {
  if (!saving_.asynchronous || !trainer_.has_whole_state()) return 0;
  return trainer_.checkpoint_bytes({nullptr, saving_.shard.index, saving_.shard.count});
}

void CheckpointObserver::get_memory() {
  if (std::exchange(is_memory_asked_for_, true)) return;
  const auto needed = copy_bytes();
  if (needed == 0) return;
  const auto besides = needed * static_cast<std::uint64_t>(saving_.writers_here - 1);
  SnapshotMemory::Pin pin;
  if (const auto device = trainer_.device(); device.is_cuda()) {
    pin = [index = device.index()](std::shared_ptr<std::byte> memory, std::size_t bytes) {
      return cuda_runtime()->pin(index, std::move(memory), bytes);
    };
  }
  coming_memory_ = std::async(std::launch::async, [needed, besides, pin = std::move(pin)] {
    return SnapshotMemory::get(needed, besides, pin);
  });
}

// Null where no copy is made.
SnapshotMemory* CheckpointObserver::memory() {
  get_memory();
  if (coming_memory_.valid()) {
    memory_ = coming_memory_.get();
    if (!memory_)
      hooks_.warn(fmt::format(
          "checkpoint: this machine has not enough memory left for a copy of the network and its "
          "optimizer's state ({}): training stands still while checkpoints are written. With "
          "checkpoint.asynchronous=false it does without asking",
          format_bytes(copy_bytes())));
  }
  return memory_ ? &*memory_ : nullptr;
}

// Waits for the checkpoint on its way, if any, and tells of it.
void CheckpointObserver::finish_writing() {
  if (!writing_.valid()) return;
  writing_.get();
  if (saving_.shard.index == 0) hooks_.on_saved(on_its_way_);
}

void CheckpointObserver::look_at_writing() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    finish_writing();
}

void CheckpointObserver::save(std::int64_t step, bool is_best) {
  const Stopwatch stall;
  finish_writing();
  const double waited = stall.seconds();
  hooks_.before();
  auto* const memory = this->memory();
  // A rank that collects parts of others gets them in memory of their own.
  const bool is_copy = saving_.asynchronous && (memory != nullptr || !trainer_.has_whole_state());
  auto content = trainer_.checkpoint({memory, saving_.shard.index, saving_.shard.count});
  last_saved_ = step;
  if (store_ == nullptr) return;
  on_its_way_ = {.path = {}, .step = step, .waited_seconds = waited};
  writing_ = std::async(std::launch::async, [this, step, is_best, content = std::move(content)] {
    // Tensors are brought into the order of their file, not by the training's team of threads.
    set_openmp_threads(1);
    const Stopwatch watch;
    on_its_way_.path = store_->save(step, content, is_best, saving_.shard);
    on_its_way_.seconds = watch.seconds();
  });
  if (!is_copy) writing_.wait();
  on_its_way_.stall_seconds = stall.seconds();
  if (!is_copy) finish_writing();
}

void CheckpointObserver::save_last(const TrainState& state) {
  if (last_saved_ != state.step) save(state.step, false);
  finish_writing();
}

void CheckpointObserver::on_start(const TrainState& state,
                                  const std::optional<MetricSums>& untrained) {
  if (!untrained)
    last_saved_ = state.step;  // a resumed run has just been read from that checkpoint
}

void CheckpointObserver::on_step(const StepReport& report) {
  get_memory();
  look_at_writing();
  if (is_due(report.state.step, saving_.every_steps)) save(report.state.step, false);
}

void CheckpointObserver::on_validation(std::int64_t /*done*/, std::int64_t /*batches*/) {
  look_at_writing();
}

void CheckpointObserver::on_epoch_end(const EpochReport& report) {
  // The best is saved whatever the schedule, as it can't be had again. It replaces a checkpoint of
  // this step from before the validation.
  if (is_due(report.state.epoch, saving_.every_epochs) || report.is_best)
    save(report.state.step, report.is_best);
}

void CheckpointObserver::on_stop(const TrainState& state) {
  save_last(state);
}

void CheckpointObserver::on_finish(const TrainState& state) {
  save_last(state);
}

}  // namespace kolo
