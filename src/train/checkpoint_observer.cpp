#include "kolo/train/checkpoint_observer.h"

#include <utility>

#include <fmt/format.h>

#include "kolo/train/observe/format.h"

namespace kolo {

CheckpointObserver::CheckpointObserver(CheckpointStore& store, CheckpointSchedule schedule,
                                       std::function<Snapshot()> snapshot,
                                       std::function<void(const SavedCheckpoint&)> on_saved,
                                       ShardWriter shard)
    : writer_(std::in_place, store, std::move(shard)),
      schedule_(schedule),
      snapshot_(std::move(snapshot)),
      on_saved_(std::move(on_saved)) {}

CheckpointObserver::CheckpointObserver(CheckpointSchedule schedule,
                                       std::function<Snapshot()> snapshot)
    : schedule_(schedule), snapshot_(std::move(snapshot)) {}

void CheckpointObserver::tell(const std::optional<WrittenCheckpoint>& written) {
  if (!written || writer_->shard().index > 0) return;
  on_its_way_.path = written->path;
  on_its_way_.seconds = written->seconds;
  on_saved_(on_its_way_);
}

void CheckpointObserver::save(std::int64_t step, bool is_best) {
  const Stopwatch stall;
  if (writer_) tell(writer_->wait());
  const double waited = stall.seconds();
  auto snapshot = snapshot_();
  last_saved_ = step;
  if (!writer_) return;
  on_its_way_ = {.path = {}, .step = step, .waited_seconds = waited};
  writer_->save(step, std::move(snapshot.content), is_best);
  const auto written = snapshot.is_copy ? std::nullopt : writer_->wait();
  on_its_way_.stall_seconds = stall.seconds();
  tell(written);
}

void CheckpointObserver::save_last(const TrainState& state) {
  if (last_saved_ != state.step) save(state.step, false);
  if (writer_) tell(writer_->wait());
}

void CheckpointObserver::on_start(const TrainState& state,
                                  const std::optional<MetricSums>& untrained) {
  if (!untrained)
    last_saved_ = state.step;  // a resumed run has just been read from that checkpoint
}

void CheckpointObserver::on_step(const StepReport& report) {
  if (writer_) tell(writer_->written());
  if (is_due(report.state.step, schedule_.every_steps)) save(report.state.step, false);
}

void CheckpointObserver::on_validation(std::int64_t /*done*/, std::int64_t /*batches*/) {
  if (writer_) tell(writer_->written());
}

void CheckpointObserver::on_epoch_end(const EpochReport& report) {
  // The best is always kept, whatever the schedule: it can't be had again later. A checkpoint of
  // this step may be there already, of the moment before validation; this one replaces it.
  if (is_due(report.state.epoch, schedule_.every_epochs) || report.is_best)
    save(report.state.step, report.is_best);
}

void CheckpointObserver::on_stop(const TrainState& state) {
  save_last(state);
}

void CheckpointObserver::on_finish(const TrainState& state) {
  save_last(state);
}

TrainerSnapshots::TrainerSnapshots(const Trainer& trainer, const SnapshotOptions& options,
                                   std::function<void(const std::string&)> warn)
    : trainer_(trainer), options_(options), warn_(std::move(warn)) {}

std::uint64_t TrainerSnapshots::bytes() const {
  if (!options_.asynchronous || !trainer_.has_whole_state()) return 0;
  return trainer_.checkpoint_bytes({nullptr, options_.shard, options_.shards});
}

void TrainerSnapshots::on_step(const StepReport& /*report*/) {
  get_memory();
}

void TrainerSnapshots::get_memory() {
  if (std::exchange(is_asked_for_, true)) return;
  const auto needed = bytes();
  if (needed == 0) return;
  const auto besides = needed * static_cast<std::uint64_t>(options_.writers_here - 1);
  coming_ = std::async(std::launch::async, [needed, besides, device = trainer_.device()] {
    return SnapshotMemory::get(needed, device, besides);
  });
}

Snapshot TrainerSnapshots::take() {
  get_memory();
  if (coming_.valid()) {
    memory_ = coming_.get();
    if (!memory_) {
      warn_(fmt::format(
          "checkpoint: this machine has not enough memory left for a copy of the network and its "
          "optimizer's state ({}): training stands still while checkpoints are written. With "
          "checkpoint.asynchronous=false it does without asking",
          format_bytes(bytes())));
    }
  }
  auto* const memory = memory_ ? &*memory_ : nullptr;
  const bool is_copy = options_.asynchronous && (memory != nullptr || !trainer_.has_whole_state());
  return {trainer_.checkpoint({memory, options_.shard, options_.shards}), is_copy};
}

}  // namespace kolo
