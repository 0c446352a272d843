#include "kolo/study/scale_study.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/config/factories.h"
#include "kolo/launch/launch_ranks.h"
#include "run/run_training.h"
#include "study/study_folder.h"

namespace kolo {

namespace {

bool submits(const ScaleRequest& request) {
  return !request.scheduler.name.empty();
}

void require_no_launcher() {
  const auto environment = detect_launch_environment();
  if (environment.is_launched())
    throw InputError(
        fmt::format("kolo scale starts ranks itself, but {} has started {} of it; start "
                    "it once, without a launcher",
                    environment.launcher, environment.size));
}

// Every rank gets as much of the machine in every run, or the numbers would not compare: what the
// run with the most ranks leaves to each, or what it was when the study began.
void settle_threads(StudyRequest& request, const StudyFolder& folder) {
  request.cores = detect_cpu_limits().cores();
  if (detect_launch_environment().in_slurm_allocation || request.ranks.empty()) return;
  const int share = request.cores / std::max(1, std::ranges::max(request.ranks));
  const int earlier = folder.threads();
  request.threads = earlier > 0 ? earlier : std::max(1, share);
}

// All that can be wrong is found before the first run.
void check_runs(const ScaleRequest& request, const RunConfig& base, const Study& study) {
  const auto machine = examine_machine(detect_launch_environment());
  for (const StudyPoint& point : study.points) {
    (void)rank_command({.ranks = point.ranks,
                        .oversubscribe = request.running.oversubscribe,
                        .threads = base.device.intra_threads},
                       machine);
  }
  RunConfig config = base;
  config.training.batch_size = study.points.back().batch_size;
  config.training.global_batch_size.reset();
  (void)prepare_run(config, {}, {}, study.points.back().ranks);
}

// How many samples per epoch has is the data's business.
std::int64_t samples_per_epoch(const RunConfig& base) {
  return make_datasets(base).training->size();
}

// As the tables and reports name it: results/digits-weak.
std::filesystem::path output_of(const ScaleRequest& request, const RunConfig& base) {
  if (!request.output.empty()) return request.output;
  return fmt::format("{}-{}", base.output_dir, request.study.strong ? "strong" : "weak");
}

// A request that has been found right, and what it comes to.
struct PreparedStudy {
  RunConfig base;
  StudyFolder folder;
  Study study;
};

// Completes the request.
PreparedStudy prepare(ScaleRequest& request) {
  require_no_launcher();
  if (request.study.program.empty()) request.study.program = own_program();
  PreparedStudy prepared{load_run_config(request.study.config), {}, {}};
  const auto& base = prepared.base;
  prepared.folder.path = output_of(request, base);
  if (!submits(request)) settle_threads(request.study, prepared.folder);
  request.study.simulated_ranks = request.simulation.ranks;
  request.simulation.ranks_per_node = request.study.ranks_per_node;
  check_simulation(request.simulation, request.study.cores);
  prepared.study = plan_study(request.study, base);
  if (submits(request))
    request.scheduler = checked(request.scheduler);
  else
    check_runs(request, base, prepared.study);
  prepared.folder.require_same(prepared.study, to_yaml(base));
  return prepared;
}

}  // namespace

std::string describe_scale_study(ScaleRequest request) {
  auto prepared = prepare(request);
  prepared.folder.collect(prepared.study);
  return describe_plan(request.study, prepared.folder, prepared.study);
}

ScaledStudy scale_study(ScaleRequest request) {
  const auto [base, folder, planned] = prepare(request);
  const auto lock = folder.lock();
  ScaledStudy result{folder.open(planned, to_yaml(base)), folder.path};
  auto& study = result.study;
  folder.collect(study);
  folder.write(study);
  if (submits(request))
    submit_points(request.study, folder, study, request.scheduler, request.running);
  else
    result.was_stopped = !run_points(request.study, folder, study, request.running);
  if (result.was_stopped) return result;
  if (!request.simulation.ranks.empty()) {
    add_predictions(study, request.study, request.simulation, samples_per_epoch(base),
                    request.running.say);
    folder.write(study);
  }
  folder.write_report();
  return result;
}

}  // namespace kolo
