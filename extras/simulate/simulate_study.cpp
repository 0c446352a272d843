#include "simulate_study.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/config/factories.h"
#include "kolo/nn/network.h"
#include "predict_spatial.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Say = std::function<void(const std::string&)>;

constexpr double too_far_off = 0.25;

int ranks_of_a_node(const SimulationRequest& request, int cores) {
  return request.ranks_per_node > 0 ? request.ranks_per_node : cores;
}

// Runs a command and returns its stdout; its stderr is this program's. Error: it failed.
std::string output_of(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += shell_word(word) + " ";
  FILE* const pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) throw Error("kolo-simulate: cannot start a process");
  std::string output;
  for (int letter = std::fgetc(pipe); letter != EOF; letter = std::fgetc(pipe))
    output += static_cast<char>(letter);
  if (::pclose(pipe) != 0)
    throw Error(fmt::format("kolo-simulate: {} failed; see above", fmt::join(words, " ")));
  return output;
}

// kolo bench of the study's configuration on so many ranks, which have the machine for themselves.
Json bench(const Study& study, const SimulationRequest& request, int ranks, std::int64_t batch_size,
           const Say& say) {
  std::vector<std::string> words{request.kolo, "bench", (request.study / "config.yaml").string(),
                                 fmt::format("training.batch_size={}", batch_size)};
  if (study.threads > 0) words.push_back(fmt::format("device.intra_threads={}", study.threads));
  if (study.parallel == "spatial") words.emplace_back("parallel.spatial=[1]");
  words.insert(words.end(), {"--mode", "full", "--profile", "--json", "-n", std::to_string(ranks)});
  if (ranks > study.cores) words.emplace_back("--oversubscribe");
  say(fmt::format("==> Measuring steps of {} rank{} with batches of {}", ranks,
                  ranks == 1 ? "" : "s", batch_size));
  return Json::parse(output_of(words));
}

std::vector<StudyPoint> points_done(const Study& study) {
  std::vector<StudyPoint> points;
  for (const auto& point : study.points)
    if (point.state == StudyPointState::done) points.push_back(point);
  return points;
}

std::set<int> ranks_measured(const Study& study) {
  std::set<int> ranks;
  for (const auto& point : points_done(study)) ranks.insert(point.ranks);
  return ranks;
}

// The smallest and the largest batch of a rank, between which predictions lie.
std::set<std::int64_t> batches_to_measure(const Study& study, const SimulationRequest& request) {
  const auto& first = study.points.front();
  std::set<std::int64_t> batches{first.batch_size};
  if (study.scaling != "strong" || study.parallel == "spatial") return batches;
  std::int64_t most = study.points.back().ranks;
  for (const int ranks : request.ranks) most = std::max<std::int64_t>(most, ranks);
  batches.insert(std::max<std::int64_t>(1, first.batch_size * first.ranks / most));
  return batches;
}

BenchMeasurements measure(const Study& study, const SimulationRequest& request, const Say& say) {
  BenchMeasurements measurements;
  std::set<int> rank_counts{1, std::min(study.cores, ranks_of_a_node(request, study.cores))};
  // Ranks that share cores are better measured than computed.
  if (study.parallel != "spatial") rank_counts.merge(ranks_measured(study));
  for (const int ranks : rank_counts)
    for (const std::int64_t batch : batches_to_measure(study, request))
      measurements.add(bench(study, request, ranks, batch, say));
  return measurements;
}

NetworkModel network_of(const BenchMeasurements& measurements, const std::string& given) {
  NetworkModel network =
      given.empty() ? NetworkModel{.name = "this machine"} : network_named(given);
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

// The network and its samples, which ranks share.
struct SharedSamples {
  std::vector<FieldLayer> layers;
  std::vector<std::int64_t> lengths;  // of a sample, by axis, slowest first
};

SharedSamples shared_samples(const RunConfig& config, const SampleLayout& layout) {
  return {make_network(config, layout)->field_layers(),
          {layout.input_shape.begin() + 1, layout.input_shape.end()}};
}

PredictedPoint point_of(const SpatialPoint& predicted, const SpatialStudy& spatial,
                        std::int64_t samples_per_epoch) {
  const auto& step = predicted.prediction.step;
  PredictedPoint point;
  point.ranks = predicted.ranks;
  point.nodes = RankLayout{predicted.ranks, spatial.ranks_per_node, spatial.cores_per_node}.nodes();
  point.batch_size = spatial.profile.batch_size;
  point.spatial.assign(predicted.plan.shape.begin(), predicted.plan.shape.end());
  point.kept_bytes = static_cast<double>(predicted.prediction.kept_bytes);
  point.step_seconds = step.step_seconds;
  point.exposed_communication_seconds = step.exposed_communication_seconds + step.straggler_seconds;
  point.data_wait_seconds = step.data_wait_seconds;
  point.samples_per_second = predicted.prediction.samples_per_second;
  point.epoch_seconds = epoch_seconds(samples_per_epoch, point.batch_size, step.step_seconds);
  return point;
}

PredictedPoint predict_shared(SpatialStudy spatial, const BenchMeasurements& measurements,
                              int ranks, std::int64_t samples_per_epoch) {
  const auto plans = spatial_plans(spatial.layers, spatial.lengths, ranks);
  if (plans.empty())
    throw InputError(fmt::format("kolo-simulate: {} ranks can't share samples of [{}]", ranks,
                                 fmt::join(spatial.lengths, ", ")));
  const std::vector<std::int64_t> shape(plans.front().shape.begin(), plans.front().shape.end());
  const bool is_alone = std::min(ranks, spatial.ranks_per_node) == 1;
  spatial.profile = is_alone ? measurements.profiles.front() : measurements.profiles.back();
  return point_of(predict_spatial_points(spatial, std::span(&shape, 1)).front(), spatial,
                  samples_per_epoch);
}

void check(const SimulationRequest& request, const Study& study) {
  if (study.points.empty()) throw InputError("kolo-simulate: the study has no points");
  if (!request.network.empty()) (void)network_named(request.network);
  (void)algorithm_named(request.algorithm);
  for (const int ranks : request.ranks) {
    if (ranks < 1) throw InputError(fmt::format("kolo-simulate: {} is no number of ranks", ranks));
    const int on_node = ranks_of_a_node(request, study.cores);
    if (ranks > on_node && request.network.empty() && request.benches.empty())
      throw InputError(
          fmt::format("kolo-simulate: --ranks {}: nodes of {} ranks need a network between them; "
                      "name one with --network: {}; or give --ranks-per-node",
                      ranks, on_node, join(network_names())));
  }
}

// Means over the points of as many ranks that tell.
double measured(const Study& study, int ranks, const std::function<double(const StudyPoint&)>& of) {
  double sum = 0, count = 0;
  for (const auto& point : points_done(study)) {
    if (point.ranks != ranks || !std::isfinite(of(point))) continue;
    sum += of(point);
    ++count;
  }
  return sum / count;
}

double efficiency(const Simulation& simulation, const PredictedPoint& point) {
  const auto& first = simulation.points.front();
  return point.samples_per_second / first.samples_per_second * first.ranks / point.ranks;
}

}  // namespace

BenchMeasurements read_benches(const std::vector<fs::path>& files) {
  BenchMeasurements measurements;
  for (const auto& file : files) {
    try {
      measurements.add(Json::parse(read_text_file(file)));
    } catch (const Json::exception& error) {
      throw InputError(
          fmt::format("kolo-simulate: {} is not JSON: {}", file.string(), error.what()));
    } catch (const Error& error) {
      throw InputError(fmt::format("kolo-simulate: {}: {}", file.string(), error.what()));
    }
  }
  if (measurements.profiles.empty())
    throw InputError(
        "kolo-simulate: no file has a profile; kolo bench --profile --json writes one");
  return measurements;
}

Simulation simulate_study(const Study& study, const SimulationRequest& request, const Say& say) {
  check(request, study);
  const auto config = load_run_config({.file = request.study / "config.yaml"});
  const auto data = make_datasets(config, {.loads_later = true}).training;
  const auto measurements =
      request.benches.empty() ? measure(study, request, say) : read_benches(request.benches);
  StudyPrediction prediction{.profiles = measurements.profiles,
                             .network = network_of(measurements, request.network)};
  prediction.options.algorithm = algorithm_named(request.algorithm);
  prediction.is_strong = study.scaling == "strong";
  const auto& first = study.points.front();
  prediction.batch_size = prediction.is_strong ? first.batch_size * first.ranks : first.batch_size;
  prediction.samples_per_epoch = data->size();
  const bool is_shared = study.parallel == "spatial";
  const auto samples = is_shared ? shared_samples(config, data->layout()) : SharedSamples{};

  Simulation simulation{prediction.network.name, {}};
  const auto add = [&](int ranks, int ranks_per_node, int cores_per_node) {
    prediction.ranks_per_node = ranks_per_node;
    prediction.cores_per_node = cores_per_node;
    if (!is_shared) {
      simulation.points.push_back(predict_points(prediction, std::span(&ranks, 1)).front());
      return;
    }
    simulation.points.push_back(predict_shared({.layers = samples.layers,
                                                .lengths = samples.lengths,
                                                .network = prediction.network,
                                                .options = prediction.options,
                                                .ranks_per_node = ranks_per_node,
                                                .cores_per_node = cores_per_node,
                                                .element_bytes =
                                                    value_bytes(config.training.precision)},
                                               measurements, ranks, prediction.samples_per_epoch));
  };
  // Runs shared the cores of the machine; the nodes to predict have cores for their ranks.
  const auto were_run = ranks_measured(study);
  for (const int ranks : were_run) add(ranks, ranks, study.cores);
  const int on_node = ranks_of_a_node(request, study.cores);
  const int cores = std::max(study.cores, on_node * measurements.profiles.front().threads);
  for (const int ranks : std::set<int>(request.ranks.begin(), request.ranks.end()))
    if (!were_run.contains(ranks)) add(ranks, on_node, cores);
  std::ranges::stable_sort(simulation.points, {}, &PredictedPoint::ranks);
  return simulation;
}

std::string to_text(const Study& study, const Simulation& simulation) {
  auto text = fmt::format("{:>7} {:>6} {:>7} {:>10} {:>12} {:>10} {:>11} {:>13} {:>9}\n", "ranks",
                          "nodes", "batch", "step, ms", "samples/s", "efficiency", "exposed, ms",
                          "measured, ms", "off by");
  bool is_any_far_off = false;
  for (const auto& point : simulation.points) {
    text += fmt::format("{:>7} {:>6} {:>7} {:>10.4g} {:>12.5g} {:>8.1f} % {:>11.3g}", point.ranks,
                        point.nodes, point.batch_size, 1000 * point.step_seconds,
                        point.samples_per_second, 100 * efficiency(simulation, point),
                        1000 * point.exposed_communication_seconds);
    const double step =
        measured(study, point.ranks, [](const StudyPoint& of) { return of.results.step_seconds; });
    if (std::isfinite(step)) {
      const double error = point.step_seconds / step - 1;
      const bool is_far_off = std::abs(error) > too_far_off;
      is_any_far_off = is_any_far_off || is_far_off;
      text +=
          fmt::format(" {:>13.4g} {:>+7.1f} %{}", 1000 * step, 100 * error, is_far_off ? " !" : "");
    }
    text += "\n";
  }
  text += fmt::format("\nPredicted with the network {}.\n", simulation.network);
  if (is_any_far_off)
    text += fmt::format(
        "Marked (!): off by more than {:.0f} %. Predictions for other numbers of ranks can't be "
        "trusted further than that.\n",
        100 * too_far_off);
  return text;
}

Json to_json(const Simulation& simulation) {
  Json json{{"network", simulation.network}, {"points", Json::array()}};
  for (const auto& point : simulation.points) {
    Json of{{"ranks", point.ranks},
            {"nodes", point.nodes},
            {"batch_size", point.batch_size},
            {"efficiency", efficiency(simulation, point)},
            {"results",
             {{"step_seconds", point.step_seconds},
              {"samples_per_second", point.samples_per_second},
              {"epoch_seconds", point.epoch_seconds},
              {"exposed_communication_seconds", point.exposed_communication_seconds},
              {"data_wait_seconds", point.data_wait_seconds}}}};
    if (!point.spatial.empty()) {
      of["spatial"] = point.spatial;
      of["kept_bytes"] = point.kept_bytes;
    }
    json["points"].push_back(std::move(of));
  }
  return json;
}

}  // namespace kolo
