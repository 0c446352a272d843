#include "kolo/train/trainer_snapshots.h"

#include <utility>

#include <fmt/format.h>

#include "kolo/train/observe/format.h"

namespace kolo {

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
