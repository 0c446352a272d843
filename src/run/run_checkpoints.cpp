#include "run/run_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/parallel/object_collectives.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

// Spreads the writers over all ranks, so that nodes write alike.
std::vector<int> ranks_that_write(int shards, int ranks) {
  std::vector<int> writers;
  for (std::int64_t shard = 0; shard < shards; ++shard)
    writers.push_back(static_cast<int>(shard * ranks / shards));
  return writers;
}

int shards_of(const CheckpointConfig& config, const Communicator& communicator,
              const Trainer& trainer) {
  if (!trainer.has_whole_state()) return 1;
  const auto ranks = communicator.size();
  if (config.shards)
    return static_cast<int>(std::min<std::int64_t>({*config.shards, ranks, most_shards}));
  return choose_shards(trainer.checkpoint_bytes(), ranks);
}

}  // namespace

RunCheckpoints::RunCheckpoints(const RunConfig& config, const RunFolder& folder,
                               const WorkPart& share, const Communicator& communicator,
                               const Trainer& trainer)
    : trainer_(trainer),
      is_root_(communicator.rank() == 0),
      saving_{.every_epochs = config.checkpoint.every_epochs,
              .every_steps = config.checkpoint.every_steps,
              .asynchronous = config.checkpoint.asynchronous},
      store_(folder.checkpoint_store(config.checkpoint.keep)) {
  auto shards = shards_of(config.checkpoint, communicator, trainer);
  if (shards > 1 && !communicator.capabilities().concurrent) {
    warning_ =
        "MPI does not grant the thread level 'multiple', which ranks need to write checkpoints "
        "together: rank 0 writes them alone";
    shards = 1;
  }
  if (!trainer.has_whole_network())
    has_part_ = share.mesh->replicas().rank() == 0;
  else
    has_part_ = is_root_ || !trainer.has_whole_state();
  if (shards == 1) return;
  const auto writers = communicator.subset(ranks_that_write(shards, communicator.size()));
  has_part_ = writers.has_value();
  if (!writers) return;
  saving_.shard = {writers->rank(), shards, [writers = *writers](const std::string& note) {
                     return all_gather_bytes(writers, note, {.name = "shards of a checkpoint"});
                   }};
  saving_.writers_here = writers->topology().local_size;
}

void RunCheckpoints::attach_to(Trainer& trainer, CheckpointHooks hooks) {
  if (!warning_.empty()) hooks.warn(warning_);
  if (!has_part_) return;
  const bool is_writer = saving_.shard.count > 1 || is_root_;
  trainer.add_observer(
      observer_.emplace(trainer_, is_writer ? &store_ : nullptr, saving_, std::move(hooks)));
}

std::string RunCheckpoints::describe() const {
  std::string text;
  const auto shards = saving_.shard.count;
  if (observer_ && observer_->copy_bytes() > 0)
    text = fmt::format("checkpoints are written in the background, from a copy that takes {}{}",
                       format_bytes(observer_->copy_bytes()), shards > 1 ? " per writer" : "");
  if (shards > 1) text += fmt::format("{}{} ranks write them", text.empty() ? "" : "; ", shards);
  return text;
}

}  // namespace kolo
