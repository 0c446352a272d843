#include "kolo/study/scale_study.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/config/derived_settings.h"

namespace kolo {

namespace {

void check(const ScaleRequest& request) {
  if (request.ranks.empty())
    throw InputError("kolo scale: --ranks is missing: the numbers of ranks, for example 1,2,4");
  for (const int ranks : request.ranks)
    if (ranks < 1)
      throw InputError(fmt::format("--ranks: {} is no number of ranks; the least is 1", ranks));
  for (const double epochs : request.warmup_epochs)
    if (!(epochs >= 0))
      throw InputError(fmt::format("--warmup: {} epochs; the least is 0", epochs));
}

// Virtual ranks make the batch of all ranks the same on any number of them.
void require_fitting_scaling(const ScaleRequest& request, const RunConfig& base) {
  if (base.training.virtual_ranks == 0 || request.strong || request.shared) return;
  refuse_setting(base, "training.virtual_ranks",
                 fmt::format("{}, so the batch of all ranks is the same on any number of them, "
                             "which is strong scaling; add --strong, or do without them "
                             "(training.virtual_ranks=0)",
                             base.training.virtual_ranks));
}

// Samples of a replica in a step of the run with the fewest ranks.
std::int64_t batch_size_of_fewest(const RunConfig& base, int fewest) {
  return batch_size_of(base.training, replicas_of(base, fewest), replica_name(base));
}

// Samples of a replica in a step: fixed (weak scaling), or its part of those of all (strong).
std::int64_t batch_size_on(const ScaleRequest& request, const RunConfig& base, int fewest,
                           int ranks) {
  if (request.shared) return batch_size_of(base.training, 1);
  const auto of_fewest = batch_size_of_fewest(base, fewest);
  if (!request.strong) return of_fewest;
  const int replicas = replicas_of(base, ranks);
  const auto name = replica_name(base);
  if (base.training.global_batch_size) return batch_size_of(base.training, replicas, name);
  const auto whole = checked_multiply<std::int64_t>(of_fewest, replicas_of(base, fewest));
  if (whole % replicas == 0) return whole / replicas;
  const auto below = whole / replicas * replicas;
  refuse_setting(
      base, "training.batch_size",
      fmt::format("{} on {}, so {} in all, which --strong keeps and {} {}s can't share evenly; "
                  "{}{} in all can be shared (training.global_batch_size), or take other --ranks",
                  of_fewest, counted(fewest, "rank"), whole, replicas, name,
                  below > 0 ? fmt::format("{} or ", below) : "", below + replicas));
}

// Tells whether the rate stays as it is, however it is scaled: the batch is the base batch.
bool is_unscaled(const RunConfig& base, const StudyPoint& point) {
  TrainingConfig training = base.training;
  training.batch_size = point.batch_size;
  training.global_batch_size.reset();
  const int replicas = point.spatial.empty() ? replicas_of(base, point.ranks) : 1;
  return batch_ratio_of(training, replicas) == 1;
}

// Folder of a point's run, named after what distinguishes it from others. Where the rate is not
// raised, a warm-up that starts at the rate of one rank changes nothing either.
std::string folder_of(const Study& study, const RunConfig& base, const StudyPoint& point) {
  auto name = point.spatial.empty() ? fmt::format("runs/{}-{}", study.scaling, point.ranks)
                                    : fmt::format("runs/spatial-{}", fmt::join(point.spatial, "x"));
  const bool is_level = is_unscaled(base, point) || point.lr_scaling == "none";
  if (!is_unscaled(base, point)) name += fmt::format("-{}", point.lr_scaling);
  if (is_level && base.training.lr_warmup_from == 1) return name;
  return fmt::format("{}-warmup{}", name, point.warmup_epochs);
}

bool can_share(const SharedSamples& samples, int ranks) {
  return !spatial_plans(samples.layers, samples.lengths, ranks).empty();
}

// "4 or 8": the nearest numbers of ranks that can share samples; there is always one below.
std::string nearest_that_can(const SharedSamples& samples, int ranks) {
  // At most a sample's number of values, which may be too large to count.
  double values = 1;
  for (const auto length : samples.lengths) values *= static_cast<double>(length);
  const auto most = static_cast<int>(std::min(values, 2. * ranks));
  int fewer = std::min(ranks - 1, most), more = ranks + 1;
  while (fewer > 1 && !can_share(samples, fewer)) --fewer;
  while (more <= most && !can_share(samples, more)) ++more;
  return more <= most ? fmt::format("{} or {}", fewer, more) : fmt::format("{}", fewer);
}

void share_samples(const SharedSamples& samples, Precision precision, StudyPoint& point) {
  const auto plans = spatial_plans(samples.layers, samples.lengths, point.ranks);
  if (plans.empty())
    throw InputError(fmt::format("kolo scale: {} ranks can't share samples of [{}]; {} can",
                                 point.ranks, fmt::join(samples.lengths, ", "),
                                 nearest_that_can(samples, point.ranks)));
  const auto& best = plans.front();
  point.spatial = best.shape;
  point.kept_bytes = static_cast<double>(most_spatial_bytes(best, value_bytes(precision)).kept) *
                     static_cast<double>(point.batch_size);
}

// Takes back sizes of batches that the command line gives by other keys than the study.
void undo_other_batch_sizes(std::vector<std::string>& settings) {
  for (const std::string key : {"local_batch_size", "global_batch_size"}) {
    const auto gives = [&](const auto& setting) { return setting.find(key) != setting.npos; };
    if (std::ranges::any_of(settings, gives))
      settings.push_back(fmt::format("training.{}=null", key));
  }
}

}  // namespace

Study plan_study(const ScaleRequest& request, const RunConfig& configured) {
  check(request);
  const std::set<int> ranks(request.ranks.begin(), request.ranks.end());
  const int fewest = *ranks.begin();
  RunConfig base = configured;
  require_fitting_scaling(request, base);
  const auto file = request.config.file.stem().string();
  const auto chosen = request.config.name ? " " + *request.config.name : std::string();
  Study study;
  study.name = file + chosen;
  study.configuration = request.config.file.string() + chosen;
  study.scaling = request.strong || request.shared ? "strong" : "weak";
  if (request.shared) study.parallel = "spatial";
  study.settings = request.config.overrides;
  study.cores = request.cores;
  if (base.device.intra_threads == 0) study.threads = request.threads;
  if (request.strong && !request.shared && !base.training.base_batch_size) {
    base.training.base_batch_size = batch_size_of_fewest(base, fewest);
    study.settings.push_back(
        fmt::format("training.base_batch_size={}", *base.training.base_batch_size));
  }

  auto scalings = request.lr_scalings;
  if (scalings.empty()) scalings = {base.optimizer.lr_scaling};
  std::set<double> warmups(request.warmup_epochs.begin(), request.warmup_epochs.end());
  if (warmups.empty()) warmups = {base.training.lr_warmup_epochs};
  for (const int count : ranks) {
    for (const auto scaling : scalings) {
      for (const double warmup : warmups) {
        StudyPoint point;
        point.ranks = count;
        if (request.ranks_per_node > 0) point.nodes = divide_up(count, request.ranks_per_node);
        point.batch_size = batch_size_on(request, base, fewest, count);
        if (request.shared)
          share_samples(*request.shared, base.training.precision, point);
        else if (const auto name = replica_name(base); name != "rank")
          point.batch_of = name;
        point.lr_scaling = name_of(scaling);
        point.warmup_epochs = warmup;
        point.folder = folder_of(study, base, point);
        study.points.push_back(point);
      }
    }
  }
  return study;
}

std::vector<std::string> settings_of(const ScaleRequest& request, const Study& study,
                                     const StudyPoint& point) {
  auto settings = study.settings;
  if (study.threads > 0) settings.push_back(fmt::format("device.intra_threads={}", study.threads));
  undo_other_batch_sizes(settings);
  settings.push_back(fmt::format("training.batch_size={}", point.batch_size));
  if (!point.spatial.empty()) settings.push_back(fmt::format("parallel.spatial={}", cut_of(point)));
  if (!request.lr_scalings.empty())
    settings.push_back(fmt::format("optimizer.lr_scaling={}", point.lr_scaling));
  if (!request.warmup_epochs.empty()) {
    settings.emplace_back("training.lr_warmup_steps=0");
    settings.push_back(fmt::format("training.lr_warmup_epochs={}", point.warmup_epochs));
  }
  return settings;
}

std::string describe(const StudyPoint& point) {
  const auto batch =
      point.spatial.empty()
          ? fmt::format("batch {} per {}", point.batch_size,
                        point.batch_of.empty() ? "rank" : point.batch_of)
          : fmt::format("samples cut as {}, batch {}", cut_of(point), point.batch_size);
  return fmt::format("{}, {}, learning rate scaling {}, {} warm-up epoch{}",
                     counted(point.ranks, "rank"), batch, point.lr_scaling, point.warmup_epochs,
                     point.warmup_epochs == 1 ? "" : "s");
}

}  // namespace kolo
