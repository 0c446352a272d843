#include "run/trained_run.h"

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/train/trainer.h"
#include "run/load_checkpoint.h"
#include "run/resume.h"
#include "run/run_device.h"

namespace kolo {

namespace fs = std::filesystem;

TrainedRun find_trained_run(std::string_view command, const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  if (fs::exists(whole / "manifest.json")) {
    const fs::path clean = whole.has_filename() ? whole : whole.parent_path();
    return {{clean.parent_path().parent_path()}, clean};
  }
  const RunFolder run{whole};
  if (!fs::exists(run.config())) {
    throw InputError(
        fmt::format("{}: {} is neither a run's folder, which holds config.yaml, nor one of its "
                    "checkpoints, which holds manifest.json",
                    command, path.string()));
  }
  return {run, std::nullopt};
}

fs::path find_checkpoint(const TrainedRun& trained, const std::string& choice) {
  if (trained.checkpoint) return *trained.checkpoint;
  const bool is_newest = choice == "best" && !trained.run.checkpoint_store().best();
  return find_checkpoint(trained.run, is_newest ? std::string(newest_checkpoint) : choice);
}

RunConfig load_trained_config(const TrainedRun& trained, const std::vector<std::string>& overrides,
                              const ModelCatalogue& models) {
  ConfigSource source{trained.run.config(), std::nullopt, overrides};
  source.is_record = true;
  return load_run_config(source, models);
}

torch::Device load_trained_network(const Communicator& communicator, const fs::path& checkpoint,
                                   const DeviceConfig& config, Network& network,
                                   TrainedPoint& point) {
  if (communicator.rank() == 0) {
    const auto loaded = load_named(checkpoint, CheckpointReading::whole);
    load_network(loaded.content, network);
    point = {loaded.step, loaded.content.state.value("epoch", std::int64_t{0})};
  }
  const auto device = start_device(config, communicator);
  move_network(network, config, device);
  broadcast_parameters(communicator, network);
  broadcast_buffers(communicator, network);
  return device;
}

}  // namespace kolo
