#include "kolo/study/scale_study.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/config/factories.h"
#include "kolo/launch/launch_ranks.h"
#include "kolo/scaling/predict_study.h"
#include "launch/supervise.h"

namespace kolo {

namespace {

template <typename T>
std::vector<T> sorted_without_repeats(std::vector<T> values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

void check(const StudyRequest& request) {
  if (request.ranks.empty())
    throw InputError("kolo scale: --ranks is missing: the numbers of ranks, for example 1,2,4");
  for (const int ranks : request.ranks)
    if (ranks < 1)
      throw InputError(fmt::format("--ranks: {} is no number of ranks; the least is 1", ranks));
  for (const auto& scaling : request.lr_scalings) {
    if (!find_named<Scaling>(scaling))
      throw InputError(fmt::format("--lr-scaling: \"{}\" is not known; it can be {}", scaling,
                                   join(known_names<Scaling>())));
  }
  for (const double epochs : request.warmup_epochs)
    if (!(epochs >= 0))
      throw InputError(fmt::format("--warmup: {} epochs; the least is 0", epochs));
}

// Samples a rank and step: of the fixed one, whatever the configuration calls it.
std::int64_t batch_size_of(const StudyRequest& request, const TrainingConfig& training,
                           int fewest_ranks, int ranks) {
  const auto of_fewest = kolo::batch_size_of(training, fewest_ranks);
  if (!request.strong) return of_fewest;
  TrainingConfig whole = training;
  whole.global_batch_size = training.global_batch_size.value_or(of_fewest * fewest_ranks);
  return kolo::batch_size_of(whole, ranks);
}

// How the rate is scaled makes no difference.
bool is_unscaled(const RunConfig& base, const StudyPoint& point) {
  TrainingConfig training = base.training;
  training.batch_size = point.batch_size;
  training.global_batch_size.reset();
  return batch_ratio_of(training, point.ranks) == 1;
}

// What distinguishes the run of a point from others. Where the rate is not raised, a warm-up that
// sets out from the rate of one rank changes nothing either.
std::string folder_of(const Study& study, const RunConfig& base, const StudyPoint& point) {
  auto name = fmt::format("runs/{}-{}", study.scaling, point.ranks);
  const bool is_level = is_unscaled(base, point) || point.lr_scaling == "none";
  if (!is_unscaled(base, point)) name += fmt::format("-{}", point.lr_scaling);
  if (is_level && base.training.lr_warmup_from == 1) return name;
  return fmt::format("{}-warmup{}", name, point.warmup_epochs);
}

}  // namespace

Study plan_study(const StudyRequest& request, const RunConfig& configured) {
  check(request);
  const auto ranks = sorted_without_repeats(request.ranks);
  RunConfig base = configured;
  const auto file = request.config.file.stem().string();
  const auto chosen = request.config.name ? " " + *request.config.name : std::string();
  Study study;
  study.name = file + chosen;
  study.configuration = request.config.file.string() + chosen;
  study.scaling = request.strong ? "strong" : "weak";
  study.settings = request.config.overrides;
  study.cores = request.cores;
  if (base.device.intra_threads == 0) study.threads = request.threads;
  if (request.strong && !base.training.base_batch_size) {
    base.training.base_batch_size = kolo::batch_size_of(base.training, ranks.front());
    study.settings.push_back(
        fmt::format("training.base_batch_size={}", *base.training.base_batch_size));
  }

  auto scalings = request.lr_scalings;
  if (scalings.empty()) scalings = {std::string(name_of(base.optimizer.lr_scaling))};
  auto warmups = sorted_without_repeats(request.warmup_epochs);
  if (warmups.empty()) warmups = {base.training.lr_warmup_epochs};
  for (const int count : request.simulated_ranks)
    (void)batch_size_of(request, base.training, ranks.front(), count);
  for (const int count : ranks) {
    for (const auto& scaling : scalings) {
      for (const double warmup : warmups) {
        StudyPoint point;
        point.ranks = count;
        if (request.ranks_per_node > 0)
          point.nodes = (count + request.ranks_per_node - 1) / request.ranks_per_node;
        point.batch_size = batch_size_of(request, base.training, ranks.front(), count);
        point.lr_scaling = scaling;
        point.warmup_epochs = warmup;
        point.folder = folder_of(study, base, point);
        study.points.push_back(point);
      }
    }
  }
  return study;
}

std::vector<std::string> settings_of(const Study& study) {
  auto settings = study.settings;
  if (study.threads > 0) settings.push_back(fmt::format("device.intra_threads={}", study.threads));
  return settings;
}

std::vector<std::string> settings_of(const StudyRequest& request, const Study& study,
                                     const StudyPoint& point) {
  auto settings = settings_of(study);
  settings.push_back(fmt::format("training.batch_size={}", point.batch_size));
  if (!request.lr_scalings.empty())
    settings.push_back(fmt::format("optimizer.lr_scaling={}", point.lr_scaling));
  if (!request.warmup_epochs.empty()) {
    settings.emplace_back("training.lr_warmup_steps=0");
    settings.push_back(fmt::format("training.lr_warmup_epochs={}", point.warmup_epochs));
  }
  return settings;
}

std::string describe(const StudyPoint& point) {
  return fmt::format("{} rank{}, batch {} per rank, learning rate scaling {}, {} warm-up epoch{}",
                     point.ranks, point.ranks == 1 ? "" : "s", point.batch_size, point.lr_scaling,
                     point.warmup_epochs, point.warmup_epochs == 1 ? "" : "s");
}

namespace {

constexpr std::chrono::hours longest_bench{2};

using Say = std::function<void(const std::string&)>;

int ranks_of_a_node(const SimulationOptions& options, int cores) {
  return options.ranks_per_node > 0 ? options.ranks_per_node : cores;
}

// Of kolo bench with so many ranks and samples per rank.
nlohmann::ordered_json bench(const Study& study, const StudyRequest& request, int ranks,
                             std::int64_t batch_size, const Say& say) {
  RankCommand command{{request.program.string(), "bench", request.config.file.string()}, {}};
  const auto add = [&](const std::string& word) { command.argv.push_back(word); };
  if (request.config.name) {
    add("--config");
    add(*request.config.name);
  }
  for (const auto& setting : settings_of(study)) add(setting);
  add(fmt::format("training.batch_size={}", batch_size));
  for (const char* const word : {"--mode", "full", "--profile", "--json", "-n"}) add(word);
  add(std::to_string(ranks));
  if (ranks > request.cores) add("--oversubscribe");
  if (ranks > 1) add("--collectives");
  say(fmt::format("==> Measuring steps of {} rank{} with batches of {}", ranks,
                  ranks == 1 ? "" : "s", batch_size));
  const auto result = probe(command, longest_bench);
  if (result.status == 0) return nlohmann::ordered_json::parse(result.output);
  throw Error(
      fmt::format("kolo bench, which predictions are made from, failed: {}", result.errors));
}

// At the smallest and the largest batch of a rank, between which predictions lie.
std::set<std::int64_t> batches_to_measure(const Study& study, const SimulationOptions& options) {
  const auto& first = study.points.front();
  std::set<std::int64_t> batches{first.batch_size};
  if (study.scaling != "strong") return batches;
  std::int64_t most = study.points.back().ranks;
  for (const int ranks : options.ranks) most = std::max<std::int64_t>(most, ranks);
  batches.insert(std::max<std::int64_t>(1, first.batch_size * first.ranks / most));
  return batches;
}

// Of every number of ranks that was run, once.
std::vector<int> ranks_measured(const Study& study) {
  std::set<int> ranks;
  for (const StudyPoint& point : study.points)
    if (point.state == StudyPointState::done) ranks.insert(point.ranks);
  return {ranks.begin(), ranks.end()};
}

BenchMeasurements measure(const Study& study, const StudyRequest& request,
                          const SimulationOptions& options, const Say& say) {
  BenchMeasurements measurements;
  std::set<int> rank_counts{1, std::min(request.cores, ranks_of_a_node(options, request.cores))};
  // Ranks that share cores are better measured than computed.
  for (const int ranks : ranks_measured(study)) rank_counts.insert(ranks);
  for (const int ranks : rank_counts)
    for (const std::int64_t batch : batches_to_measure(study, options))
      measurements.add(bench(study, request, ranks, batch, say));
  return measurements;
}

NetworkModel network_of(const BenchMeasurements& measurements, const SimulationOptions& options) {
  NetworkModel network = options.network.empty() ? NetworkModel{.name = "this machine"}
                                                 : network_named(options.network);
  const auto collectives = measurements.collectives_of_profiled();
  if (collectives.empty()) return network;
  const auto name = network.name;
  network = fit_network(collectives, network).model;
  network.name = name;
  return network;
}

void append(Study& study, std::vector<StudyPoint> points) {
  const StudyPoint line = study.points.front();
  for (StudyPoint& point : points) {
    point.lr_scaling = line.lr_scaling;
    point.warmup_epochs = line.warmup_epochs;
    study.points.push_back(point);
  }
}

}  // namespace

void check_simulation(const SimulationOptions& options, int cores) {
  if (!options.network.empty()) (void)network_named(options.network);
  (void)algorithm_named(options.algorithm);
  for (const int ranks : options.ranks) {
    if (ranks < 1) throw InputError(fmt::format("--simulate: {} is no number of ranks", ranks));
    if (ranks > ranks_of_a_node(options, cores) && options.network.empty()) {
      std::string names;
      for (const auto& name : network_names()) names += " " + name;
      throw InputError(
          fmt::format("--simulate {}: nodes of {} ranks need a network between them; name one with "
                      "--network:{}; or give --ranks-per-node",
                      ranks, ranks_of_a_node(options, cores), names));
    }
  }
}

void add_predictions(Study& study, const StudyRequest& request, const SimulationOptions& options,
                     std::int64_t samples_per_epoch, const Say& say) {
  std::erase_if(study.points,
                [](const StudyPoint& point) { return point.state == StudyPointState::predicted; });
  const auto measurements = measure(study, request, options, say);
  StudyPrediction prediction{.profiles = measurements.profiles,
                             .network = network_of(measurements, options)};
  prediction.is_strong = study.scaling == "strong";
  const auto& first = study.points.front();
  prediction.batch_size = prediction.is_strong ? first.batch_size * first.ranks : first.batch_size;
  prediction.samples_per_epoch = samples_per_epoch;
  prediction.options.algorithm = algorithm_named(options.algorithm);

  // What was run shares this machine's cores.
  prediction.cores_per_node = request.cores;
  std::vector<StudyPoint> points;
  for (const int ranks : ranks_measured(study)) {
    prediction.ranks_per_node = ranks;
    for (auto& point : predict_points(prediction, std::span(&ranks, 1))) points.push_back(point);
  }
  // The nodes of other machines have cores for their ranks.
  prediction.ranks_per_node = ranks_of_a_node(options, request.cores);
  prediction.cores_per_node =
      std::max(request.cores, prediction.ranks_per_node * prediction.profiles.front().threads);
  for (auto& point : predict_points(prediction, options.ranks)) points.push_back(point);
  study.network = prediction.network.name;
  append(study, std::move(points));
}

}  // namespace kolo
