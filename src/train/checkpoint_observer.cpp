#include "kolo/train/checkpoint_observer.h"

#include <utility>

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
  else if (schedule_.at_start)
    save(state.step, false);
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

}  // namespace kolo
