#include "kolo/train/checkpoint_observer.h"

#include <utility>

namespace kolo {

CheckpointObserver::CheckpointObserver(CheckpointStore& store, CheckpointSchedule schedule,
                                       std::function<Checkpoint()> snapshot,
                                       std::function<void(const std::filesystem::path&)> on_saved)
    : store_(store),
      schedule_(schedule),
      snapshot_(std::move(snapshot)),
      on_saved_(std::move(on_saved)) {}

void CheckpointObserver::save(std::int64_t step, bool is_best) {
  const auto path = store_.save(step, snapshot_(), is_best);
  last_saved_ = step;
  on_saved_(path);
}

void CheckpointObserver::on_start(const TrainState& state,
                                  const std::optional<MetricSums>& untrained) {
  // A resumed run has just been read from the checkpoint of this step.
  if (!untrained)
    last_saved_ = state.step;
  else if (schedule_.at_start)
    save(state.step, false);
}

void CheckpointObserver::on_step(const StepReport& report) {
  if (schedule_.every_steps > 0 && report.state.step % schedule_.every_steps == 0)
    save(report.state.step, false);
}

void CheckpointObserver::on_epoch_end(const EpochReport& report) {
  // The best is always kept, whatever the schedule: it can't be had again later. A checkpoint of
  // this step may be there already, of the moment before validation; this one replaces it.
  const bool is_due =
      schedule_.every_epochs > 0 && report.state.epoch % schedule_.every_epochs == 0;
  if (is_due || report.is_best) save(report.state.step, report.is_best);
}

void CheckpointObserver::on_stop(const TrainState& state) {
  if (last_saved_ != state.step) save(state.step, false);
}

void CheckpointObserver::on_finish(const TrainState& state) {
  if (last_saved_ != state.step) save(state.step, false);
}

}  // namespace kolo
