#include "kolo/study/scale_study.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "kolo/config/factories.h"
#include "kolo/run/launch_ranks.h"
#include "run/prepared_run.h"
#include "run/work_part.h"
#include "study/study_folder.h"

namespace kolo {

namespace fs = std::filesystem;

void require_no_launcher(std::string_view command) {
  const auto environment = detect_launch_environment();
  if (environment.is_launched())
    throw InputError(
        fmt::format("{} starts ranks itself, but {} has started {} of it; start it once, without "
                    "a launcher",
                    command, environment.launcher, environment.size));
}

namespace {

bool submits(const ScaleRequest& request) {
  return !request.scheduler.name.empty();
}

// Chooses the threads of a rank, the same in every run, so that the numbers compare: a rank's share
// of the cores in the run with the most ranks, or what it was when the study began.
void settle_threads(ScaleRequest& request, const StudyFolder& folder) {
  request.cores = detect_cpu_limits().cores();
  if (detect_launch_environment().in_slurm_allocation || request.ranks.empty()) return;
  const int share = request.cores / std::max(1, std::ranges::max(request.ranks));
  const int earlier = fs::exists(folder.file()) ? Study::read(folder.file()).threads : 0;
  request.threads = earlier > 0 ? earlier : std::max(1, share);
}

// Configuration of a run, with all that the study sets for it.
RunConfig config_of(const ScaleRequest& request, const Study& study, const StudyPoint& point) {
  auto source = request.config;
  source.overrides = settings_of(request, study, point);
  return load_run_config(source, request.components.models);
}

// Checks before the first run what can be wrong with any: InputError, which names the run. Of jobs
// for a scheduler, which may find another machine and other files, the settings alone.
void check_runs(const ScaleRequest& request, const RunConfig& base, const StudyFolder& folder,
                const Study& study) {
  std::optional<MachineFacts> machine;
  if (!submits(request))
    machine = examine_machine(detect_launch_environment(), base.communication.launcher);
  // Rates and warm-ups don't matter to the preparation of a run.
  std::set<std::tuple<int, std::int64_t, std::vector<int>>> prepared;
  const auto check = [&](const StudyPoint& point) {
    auto config = config_of(request, study, point);
    if (!machine) return;
    (void)rank_command({.ranks = point.ranks,
                        .oversubscribe = request.oversubscribe,
                        .threads = config.device.intra_threads},
                       *machine);
    const auto run = folder.run(point);
    run.require_writable();
    if (!prepared.emplace(point.ranks, point.batch_size, point.spatial).second) return;
    config.output_dir = run.path.string();
    (void)prepare_run(config, request.components, {}, point.ranks);
  };
  std::set<std::string> folders;  // points that train alike are one run
  for (const auto& point : study.points) {
    if (!folders.insert(point.folder).second) continue;
    try {
      check(point);
    } catch (const InputError& error) {
      throw InputError(fmt::format("scale: the run ({}): {}", describe(point), error.what()));
    }
  }
}

// Refuses other ways to share work: all ranks are one replica, whose cut the study chooses.
void require_nothing_else_shared(const RunConfig& base) {
  const auto refuse_value = [&](const char* key, std::int64_t value) {
    refuse_setting(base, key,
                   fmt::format("{}, but with kolo scale --parallel spatial all ranks share each "
                               "sample and nothing else; leave it out",
                               value));
  };
  if (base.parallel.pipeline != 1) refuse_value("parallel.pipeline", base.parallel.pipeline);
  if (base.parallel.data > 1) refuse_value("parallel.data", base.parallel.data);
  if (base.training.virtual_ranks > 0)
    refuse_value("training.virtual_ranks", base.training.virtual_ranks);
}

SharedSamples shared_samples(const RunConfig& base, const RunComponents& components) {
  require_nothing_else_shared(base);
  const auto layout = make_datasets(base, components, {.loads_later = true}).training->layout();
  SharedSamples samples{field_layers_of(base, layout, components.models),
                        {layout.input_shape.begin() + 1, layout.input_shape.end()}};
  if (samples.layers.empty()) {
    refuse_setting(base, "model.name",
                   fmt::format("{} makes no fields, so ranks can't share its samples; use a model "
                               "that does (unet3d), or kolo scale --parallel data",
                               base.model.name));
  }
  return samples;
}

// The study's folder, by default results/digits-weak.
std::filesystem::path output_of(const ScaleRequest& request, const RunConfig& base) {
  if (!request.output.empty()) return request.output;
  const auto* const kind = request.shared ? "spatial" : request.strong ? "strong" : "weak";
  return fmt::format("{}-{}", base.output_dir, kind);
}

// A request that has been found right, its folder and its study.
struct PreparedStudy {
  std::string configuration;
  StudyFolder folder;
  Study study;
};

// Completes the request.
PreparedStudy prepare(ScaleRequest& request) {
  require_no_launcher("kolo scale");
  if (request.program.empty()) request.program = own_program();
  const auto base = load_run_config(request.config, request.components.models);
  PreparedStudy prepared{to_yaml(base), StudyFolder(), {}};
  if (request.spatial) request.shared = shared_samples(base, request.components);
  prepared.folder.path = output_of(request, base);
  if (!submits(request)) settle_threads(request, prepared.folder);
  prepared.study = plan_study(request, base);
  if (submits(request)) request.scheduler = checked(request.scheduler);
  check_runs(request, base, prepared.folder, prepared.study);
  prepared.study = prepared.folder.merged(prepared.study, prepared.configuration);
  return prepared;
}

}  // namespace

std::string describe_scale_study(ScaleRequest request) {
  auto prepared = prepare(request);
  prepared.folder.collect(prepared.study);
  return describe_plan(request, prepared.folder, prepared.study);
}

ScaledStudy scale_study(ScaleRequest request) {
  const auto [configuration, folder, planned] = prepare(request);
  const auto lock = folder.lock();
  ScaledStudy result{folder.merged(planned, configuration), folder.path};
  auto& study = result.study;
  if (!fs::exists(folder.file())) write_file_atomically(folder.config(), configuration);
  folder.collect(study);
  folder.write(study);
  if (submits(request))
    submit_points(request, folder, study);
  else
    result.was_stopped = !run_points(request, folder, study);
  if (result.was_stopped) return result;
  folder.write_report();
  return result;
}

}  // namespace kolo
