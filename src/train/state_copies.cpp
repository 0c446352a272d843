#include "kolo/train/state_copies.h"

#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

StateCopies::StateCopies(std::int64_t every_steps, CheckpointStore* store, Work work)
    : every_steps_(every_steps), work_(std::move(work)) {
  if (store != nullptr) writer_.emplace(*store);
}

// What goes wrong is said once, and is no reason to end a training.
template <typename Part>
void StateCopies::attempt(const Part& part) {
  try {
    part();
  } catch (const Error& error) {
    is_over_ = true;
    taken_.reset();
    work_.warn(fmt::format("{}; there are no more copies of the state on this node", error.what()));
  }
}

void StateCopies::on_step(const StepReport& report) {
  write();
  const auto step = report.state.step;
  if (step % every_steps_ != 0) return;
  work_.before();
  if (work_.take) take(step);
}

void StateCopies::on_validation(std::int64_t /*done*/, std::int64_t /*batches*/) {
  write();
}

void StateCopies::take(std::int64_t step) {
  const bool is_free = writer_ && !is_over_ && !writer_->is_busy();
  if (work_.is_collective) {
    auto snapshot = work_.take();
    if (is_free) taken_ = std::move(snapshot);
  } else if (is_free) {
    attempt([&] { taken_ = work_.take(); });
  }
  taken_step_ = step;
}

void StateCopies::write() {
  if (!writer_) return;
  attempt([&] { (void)writer_->written(); });
  if (!taken_) return;
  attempt([&] {
    work_.check();
    writer_->save(taken_step_, std::move(taken_->content), false);
  });
  taken_.reset();
}

void StateCopies::end() {
  taken_.reset();
  if (writer_) attempt([&] { (void)writer_->wait(); });
}

}  // namespace kolo
