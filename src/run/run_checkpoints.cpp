#include "run/run_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/config/factories.h"
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
                               const WorkShare& share, const Communicator& communicator,
                               const Trainer& trainer)
    : config_(config.checkpoint),
      trainer_(trainer),
      is_root_(communicator.rank() == 0),
      options_{.asynchronous = config_.asynchronous},
      store_(folder.checkpoint_store(config_.keep)) {
  auto shards = shards_of(config_, communicator, trainer);
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
  writer_ = {writers->rank(), shards, [writers = *writers](const std::string& note) {
               return all_gather_bytes(writers, note, {.name = "shards of a checkpoint"});
             }};
  options_.shard = writer_.index;
  options_.shards = shards;
  options_.writers_here = writers->topology().local_size;
}

void RunCheckpoints::attach_to(Trainer& trainer, Hooks hooks) {
  if (!warning_.empty()) hooks.warn(warning_);
  if (!has_part_) return;
  trainer.add_observer(snapshots_.emplace(trainer_, options_, hooks.warn));
  const auto schedule = make_checkpoint_schedule(config_);
  const auto take = [this, before = std::move(hooks.before)] {
    before();
    return snapshots_->take();
  };
  const bool is_writer = writer_.count > 1 || is_root_;
  if (is_writer)
    observer_.emplace(store_, schedule, take, std::move(hooks.on_saved), writer_);
  else
    observer_.emplace(schedule, take);
  trainer.add_observer(*observer_);
}

std::string RunCheckpoints::describe() const {
  std::string text;
  if (snapshots_ && snapshots_->bytes() > 0)
    text = fmt::format("checkpoints are written in the background, from a copy that takes {}{}",
                       format_bytes(snapshots_->bytes()), writer_.count > 1 ? " per writer" : "");
  if (writer_.count > 1)
    text += fmt::format("{}{} ranks write them", text.empty() ? "" : "; ", writer_.count);
  return text;
}

}  // namespace kolo
