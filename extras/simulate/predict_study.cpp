#include "predict_study.h"

#include <cmath>
#include <cstdlib>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "step_work.h"

namespace kolo {

namespace {

// The inverse of the normal distribution, by bisection of its complement: exact enough, and short.
double normal_quantile(double probability) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    if (std::erfc(-middle / std::numbers::sqrt2) / 2 < probability)
      low = middle;
    else
      high = middle;
  }
  return (low + high) / 2;
}

}  // namespace

double expected_maximum(int values) {
  if (values <= 1) return 0;
  constexpr double alpha = .375;
  return normal_quantile((values - alpha) / (values - 2 * alpha + 1));
}

StepPrediction predict_step(const StepProfile& profile, const NetworkModel& network,
                            const RankLayout& layout, const SimulatorOptions& options) {
  const StepWork work{.forward = {{.measured_seconds = profile.forward_seconds, .share = 1}},
                      .backward = {{.measured_seconds = profile.backward_seconds, .share = 1}}};
  return play_step(profile, work, network, layout, options);
}

namespace {

RankLayout layout_of(const StudyPrediction& prediction, int ranks) {
  return {ranks, prediction.ranks_per_node, prediction.cores_per_node};
}

std::int64_t batch_of_rank(const StudyPrediction& prediction, int ranks) {
  if (!prediction.is_strong) return prediction.batch_size;
  if (prediction.batch_size % ranks == 0) return prediction.batch_size / ranks;
  throw InputError(
      fmt::format("scaling: a global batch of {} samples can't be shared evenly by {} ranks; leave "
                  "that number of ranks out, or take another batch",
                  prediction.batch_size, ranks));
}

// Profiles measured with about as many ranks side by side; of two numbers equally far, the larger.
std::vector<StepProfile> nearest_profiles(const StudyPrediction& prediction, int ranks_on_node) {
  int nearest = 0;
  for (const auto& profile : prediction.profiles) {
    const int distance = std::abs(profile.ranks_per_node - ranks_on_node);
    const int best = std::abs(nearest - ranks_on_node);
    if (nearest == 0 || distance < best || (distance == best && profile.ranks_per_node > nearest))
      nearest = profile.ranks_per_node;
  }
  std::vector<StepProfile> found;
  for (const auto& profile : prediction.profiles) {
    if (profile.ranks_per_node == nearest) found.push_back(profile);
  }
  return found;
}

}  // namespace

void BenchMeasurements::add(const nlohmann::ordered_json& bench) {
  if (!bench.is_object() || !bench.contains("n_ranks"))
    throw Error("scaling: not a JSON object of kolo bench --json: it lacks \"n_ranks\"");
  if (const auto profile = bench.find("profile"); profile != bench.end())
    profiles.push_back(StepProfile::from_json(*profile));
  if (const auto times = bench.find("collectives"); times != bench.end())
    collectives.push_back(CollectiveMeasurement::from_json(*times));
}

std::vector<CollectiveMeasurement> BenchMeasurements::collectives_of_profiled() const {
  const bool on_devices = !profiles.empty() && !profiles.front().device.empty();
  std::vector<CollectiveMeasurement> found;
  for (const auto& measurement : collectives) {
    if (measurement.device.empty() != on_devices) found.push_back(measurement);
  }
  return found;
}

StepPrediction predict_ranks(const StudyPrediction& prediction, int ranks) {
  if (ranks < 1) {
    throw InputError(
        fmt::format("scaling: {} ranks can't be simulated; there must be at least one", ranks));
  }
  const auto layout = layout_of(prediction, ranks);
  check(layout);
  const auto profile = profile_at_batch(nearest_profiles(prediction, layout.ranks_on_node()),
                                        batch_of_rank(prediction, ranks));
  return predict_step(profile, prediction.network, layout, prediction.options);
}

double epoch_seconds(std::int64_t samples, std::int64_t batch, double step_seconds) {
  return std::ceil(static_cast<double>(samples) / static_cast<double>(batch)) * step_seconds;
}

std::vector<PredictedPoint> predict_points(const StudyPrediction& prediction,
                                           std::span<const int> rank_counts) {
  std::vector<PredictedPoint> points;
  for (const int ranks : rank_counts) {
    const auto step = predict_ranks(prediction, ranks);
    PredictedPoint point;
    point.ranks = ranks;
    point.nodes = layout_of(prediction, ranks).nodes();
    point.batch_size = batch_of_rank(prediction, ranks);
    point.step_seconds = step.step_seconds;
    point.exposed_communication_seconds =
        step.exposed_communication_seconds + step.straggler_seconds;
    point.data_wait_seconds = step.data_wait_seconds;
    const auto batch = point.batch_size * ranks;
    point.samples_per_second = static_cast<double>(batch) / step.step_seconds;
    point.epoch_seconds = epoch_seconds(prediction.samples_per_epoch, batch, step.step_seconds);
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace kolo
