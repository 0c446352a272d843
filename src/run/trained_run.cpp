#include "run/trained_run.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/config/factories.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/objective.h"
#include "kolo/train/trainer.h"
#include "run/prepared_run.h"
#include "run/resume.h"
#include "run/run_device.h"
#include "run/work_part.h"

namespace kolo {

namespace fs = std::filesystem;

std::string describe_study_in(const fs::path& folder) {
  for (const auto& [file, what, runs] :
       {std::array{"sweep.json", "a sweep", "trials"}, {"study.json", "a study", "runs"}}) {
    std::error_code error;  // a folder that can't be listed counts as empty
    if (!fs::is_regular_file(folder / file, error)) continue;
    std::vector<std::string> names;
    for (fs::directory_iterator entry(folder / runs, error), end; !error && entry != end;
         entry.increment(error))
      names.push_back(entry->path().filename());
    std::ranges::sort(names);
    return fmt::format("{}, whose runs are in {}{}{}", what, (folder / runs).string(),
                       names.empty() ? "" : ": ", join_first(names));
  }
  return {};
}

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
  const auto study = run.holds_a_run() ? "" : describe_study_in(path);
  if (!study.empty())
    throw InputError(fmt::format("{}: {} is {}; name one of them", command, path.string(), study));
  return {run, std::nullopt};
}

fs::path find_checkpoint(const TrainedRun& trained, const std::string& choice) {
  if (trained.checkpoint) return *trained.checkpoint;
  const bool is_newest = choice == "best" && !trained.run.checkpoint_store().best();
  return find_checkpoint(trained.run, is_newest ? std::string(newest_checkpoint) : choice);
}

namespace {

// Path of the program for a shell: "./build/my_net", where it lies below this folder.
std::string path_for_shell(const fs::path& program) {
  const auto near = program.lexically_proximate(fs::current_path());
  const bool is_below = !near.empty() && *near.begin() != "..";
  return is_below ? "./" + near.string() : program.string();
}

// InputError: another program trained the run, with parts that this one lacks. Predictions need no
// loss.
void require_own_components(const TrainedRun& trained, const TrainedJob& job,
                            const RunComponents& components) {
  const auto own = own_components(components);
  auto origin = read_run_origin(trained.run.origin());
  std::erase_if(origin.own_components, [&](const std::string& part) {
    return std::ranges::find(own, part) != own.end() || (part == "loss" && !job.reads_data);
  });
  if (origin.own_components.empty()) return;
  const auto program = path_for_shell(origin.program);
  throw InputError(
      fmt::format("{0}: {1} was trained by {2}, whose {3} kolo doesn't know; use {2} {0} {1}",
                  job.command, job.path.string(), program, join(origin.own_components, " and ")));
}

RunConfig config_of(const TrainedRun& trained, const TrainedJob& job,
                    const RunComponents& components) {
  require_own_components(trained, job, components);
  return load_run_config({trained.run.config(), std::nullopt, job.overrides}, components.models);
}

// Checks the device, which data that isn't read doesn't need.
void require_device_for(const TrainedJob& job, RunConfig config) {
  if (!job.reads_data) config.data.own = {};
  require_device(config);
  if (!wants_gpu(config.device)) require_precision(config.training.precision);
}

// Reads the data as in validation: whole, in order, never varied. A job that needs no data gets
// samples of the layout that the run has recorded.
Datasets datasets_of(const TrainedJob& job, const TrainedRun& trained, const RunConfig& config,
                     const RunComponents& components, const RankPreparation& as) {
  const auto layout = job.reads_data ? std::nullopt : recorded_layout(trained.run.origin());
  if (layout) {
    const auto made = std::make_shared<RandomDataset>(*layout, 1, config.seed);
    return {made, made};
  }
  const DataReading reading{
      .looks_at_files = job.reads_data && as.rank == 0, .varies = false, .loads_later = true};
  return make_datasets(config, components, reading);
}

TrainedModel prepare_trained(const TrainedJob& job, const TrainedRun& trained,
                             const RunConfig& config, const RunComponents& components,
                             const RankPreparation& as) {
  TrainedModel model{.config = config};
  if (as.rank == 0) model.checkpoint = find_checkpoint(trained, job.checkpoint);
  require_device_for(job, config);
  model.datasets = datasets_of(job, trained, config, components, as);
  auto& names = model.datasets.class_names;
  if (names.empty()) names = recorded_class_names(trained.run.origin());
  model.network = make_network(config, model.datasets.training->layout(), components.models);
  model.objective = std::make_shared<Objective>(make_objective(config, components));
  return model;
}

}  // namespace

int run_trained(const TrainedJob& job, const RunComponents& components, const RunOptions& options) {
  const auto environment = detect_launch_environment();
  keep_freed_memory();
  TrainedRun trained;
  RunConfig config;
  std::optional<TrainedModel> model;
  RankJob of_rank;
  of_rank.communicator = options.communicator;
  of_rank.configure = [&] {
    trained = find_trained_run(job.command, job.path);
    config = config_of(trained, job, components);
    set_threads(config.device, environment);
    return config.communication;
  };
  of_rank.prepare = [&](const RankPreparation& as) {
    model = prepare_trained(job, trained, config, components, as);
    auto facts = facts_of(config, model->datasets);
    for (auto& fact : job.prepare(*model, as.rank == 0)) facts.push_back(std::move(fact));
    return facts;
  };
  if (job.reads_data)
    of_rank.load = [&](const Communicator& ranks) { load_data(ranks, model->datasets); };
  of_rank.run = [&](const Communicator& communicator) {
    job.work(*model, communicator);
    return 0;
  };
  return run_rank_job(environment, of_rank);
}

RunConfig check_trained(const TrainedJob& job, const RunComponents& components) {
  const auto trained = find_trained_run(job.command, job.path);
  auto config = config_of(trained, job, components);
  (void)job.prepare(prepare_trained(job, trained, config, components, {}), true);
  return config;
}

torch::Device load_trained_network(const Communicator& communicator, TrainedModel& model) {
  auto& network = *model.network;
  if (communicator.rank() == 0) {
    const auto loaded = load_named(model.checkpoint, CheckpointReading::whole);
    load_network(loaded.content, network);
    model.step = loaded.step;
    model.epoch = loaded.content.state.value("epoch", std::int64_t{0});
  }
  const auto device = start_device(model.config.device, communicator);
  move_network(network, model.config, device);
  broadcast_parameters(communicator, network);
  broadcast_buffers(communicator, network);
  return device;
}

}  // namespace kolo
