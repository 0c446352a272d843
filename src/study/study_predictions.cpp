#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/launch/launch_ranks.h"
#include "kolo/scaling/predict_spatial.h"
#include "kolo/scaling/predict_study.h"
#include "kolo/study/scale_study.h"
#include "launch/supervise.h"

namespace kolo {

namespace {

constexpr std::chrono::hours longest_bench{2};

using Say = std::function<void(const std::string&)>;

int ranks_of_a_node(const SimulationOptions& options, int cores) {
  return options.ranks_per_node > 0 ? options.ranks_per_node : cores;
}

// Of kolo bench with so many ranks and samples per rank, which has them for itself.
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
  if (request.shared) add("parallel.spatial=[1]");
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
  if (study.scaling != "strong" || study.parallel == "spatial") return batches;
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
  if (!request.shared)
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
  for (const auto& each : collectives) {
    if (each.messages.empty()) continue;
    auto& link = each.messages_are_within_node() ? network.messages_within_node
                                                 : network.messages_between_nodes;
    link = fit_messages(each.messages);
  }
  return network;
}

// Whole steps, the last one with fewer samples.
double epoch_seconds(std::int64_t samples, std::int64_t batch, double step_seconds) {
  return std::ceil(static_cast<double>(samples) / static_cast<double>(batch)) * step_seconds;
}

// What is predicted of ranks that share samples.
StudyPoint point_of(const SpatialPoint& predicted, const SpatialStudy& spatial,
                    std::int64_t samples_per_epoch) {
  const auto& prediction = predicted.prediction;
  const auto& step = prediction.step;
  StudyPoint point;
  point.ranks = predicted.ranks;
  point.nodes = RankLayout{predicted.ranks, spatial.ranks_per_node, spatial.cores_per_node}.nodes();
  point.batch_size = spatial.profile.batch_size;
  point.spatial = predicted.plan.shape;
  point.kept_bytes = static_cast<double>(prediction.kept_bytes);
  point.state = StudyPointState::predicted;
  point.results.step_seconds = step.step_seconds;
  point.results.exposed_communication_seconds =
      step.exposed_communication_seconds + step.straggler_seconds;
  point.results.data_wait_seconds = step.data_wait_seconds;
  point.results.samples_per_second = prediction.samples_per_second;
  point.results.epoch_seconds =
      epoch_seconds(samples_per_epoch, point.batch_size, step.step_seconds);
  return point;
}

// Of the profiles, which are of one rank and, where the machine has cores for several, of those
// side by side.
const StepProfile& profile_for(const BenchMeasurements& measurements, int ranks_on_node) {
  return ranks_on_node == 1 ? measurements.profiles.front() : measurements.profiles.back();
}

std::vector<StudyPoint> predict_shared(const Study& study, const StudyRequest& request,
                                       const SimulationOptions& options,
                                       const BenchMeasurements& measurements,
                                       const NetworkModel& network,
                                       std::int64_t samples_per_epoch) {
  const auto& samples = request.shared.value();
  SpatialStudy spatial{
      .profile = {}, .layers = samples.layers, .lengths = samples.lengths, .network = network};
  spatial.options.algorithm = algorithm_named(options.algorithm);
  std::vector<StudyPoint> points;
  const auto add = [&](int ranks) {
    spatial.profile = profile_for(measurements, std::min(ranks, spatial.ranks_per_node));
    const auto plan = best_cut(samples, ranks);
    const std::vector<std::int64_t> shape(plan.shape.begin(), plan.shape.end());
    for (const auto& point : predict_spatial_points(spatial, std::span(&shape, 1)))
      points.push_back(point_of(point, spatial, samples_per_epoch));
  };
  // What was run shares this machine's cores; the nodes of other machines have cores for their
  // ranks.
  spatial.cores_per_node = request.cores;
  for (const int ranks : ranks_measured(study)) {
    spatial.ranks_per_node = ranks;
    add(ranks);
  }
  spatial.ranks_per_node = ranks_of_a_node(options, request.cores);
  spatial.cores_per_node =
      std::max(request.cores, spatial.ranks_per_node * measurements.profiles.front().threads);
  for (const int ranks : options.ranks) add(ranks);
  return points;
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
  if (request.shared) {
    const auto network = network_of(measurements, options);
    auto points = predict_shared(study, request, options, measurements, network, samples_per_epoch);
    study.network = network.name;
    append(study, std::move(points));
    return;
  }
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
