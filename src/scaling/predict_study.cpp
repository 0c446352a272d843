#include "kolo/scaling/predict_study.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr double metrics_bytes = 40, agreement_bytes = 24;

// A rank's two threads: one computes, one communicates, and while it does so takes `share` of the
// processor from the first.
class Rank {
 public:
  void compute(double seconds, double share) {
    const double shared_time = std::max(0., busy_until_ - now_);
    const double done_meanwhile = std::min(seconds, shared_time * (1 - share));
    if (done_meanwhile < seconds)
      now_ += shared_time + seconds - done_meanwhile;
    else if (seconds > 0)
      now_ += seconds / (1 - share);
  }

  // Hands a collective to the communication thread, which does one after another; returns when it
  // will be done.
  double communicate(double seconds) {
    busy_until_ = std::max(now_, busy_until_) + seconds;
    communication_ += seconds;
    return busy_until_;
  }

  void wait_until(double time) { now_ = std::max(now_, time); }

  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] double communication() const { return communication_; }

 private:
  double now_ = 0;
  double busy_until_ = 0;
  double communication_ = 0;
};

class Simulation {
 public:
  Simulation(const StepProfile& profile, const NetworkModel& network, const RankLayout& layout,
             const SimulatorOptions& options)
      : profile_(profile),
        network_(profile.device.empty() ? network : between_devices(network)),
        layout_(profile.device.empty() ? layout : with_own_devices(layout)),
        options_(options),
        optimizer_seconds_(profile.optimizer_seconds) {
    if (profile.device.empty()) share_cores();
  }

  [[nodiscard]] StepPrediction run() {
    StepPrediction prediction;
    prediction.data_wait_seconds = profile_.data_wait_seconds;
    prediction.compute_seconds =
        stretch_ * (profile_.forward_seconds + profile_.backward_seconds + optimizer_seconds_);
    compute(profile_.forward_seconds);
    const double metrics = all_reduce(metrics_bytes);
    backward();
    update();
    rank_.wait_until(metrics);
    prediction.communication_seconds = rank_.communication();
    prediction.exposed_communication_seconds = rank_.now() - prediction.compute_seconds;
    // While one waits for its turn on a core, others wait for it: the same time.
    if (options_.stragglers)
      prediction.straggler_seconds = std::max(0., stretch_ * slowest_behind_mean() - turn_seconds_);
    prediction.step_seconds =
        rank_.now() + prediction.data_wait_seconds + prediction.straggler_seconds;
    return prediction;
  }

 private:
  void share_cores() {
    const double wanted = static_cast<double>(layout_.ranks_on_node()) * profile_.threads;
    const double measured = static_cast<double>(profile_.ranks_per_node) * profile_.threads;
    // Ranks wait for each other in every step, so the core that has the most of them decides.
    stretch_ = std::max(1., std::ceil(wanted / layout_.cores_per_node)) /
               std::max(1., std::ceil(measured / profile_.cores_per_node));
    optimizer_seconds_ = profile_.optimizer_seconds * update_share();
    const double spare_cores = layout_.cores_per_node - wanted;
    const double missing_core = std::clamp(1 - spare_cores / layout_.ranks_on_node(), 0., 1.);
    share_ = missing_core * options_.processor_share;
    if (spare_cores < 0 || layout_.nodes() > 1) {
      const double longest = stretch_ * profile_.backward_seconds / 2;
      turn_seconds_ = share_ * std::min(options_.turn_seconds, longest);
    }
  }

  [[nodiscard]] double slowest_behind_mean() const {
    const double measured = std::max(0., profile_.slowest_seconds - profile_.compute_seconds());
    const double here = expected_maximum(layout_.ranks);
    const double there = expected_maximum(profile_.ranks);
    if (layout_.ranks < profile_.ranks) return measured * here / there;
    return measured + profile_.deviation_seconds * (here - there);
  }

  // Of an update's time, where the ranks of a node share it: each rank's part of the memory, and
  // what it writes into the other ranks' parameters, for which a line is read as well.
  [[nodiscard]] double update_share() const {
    const auto ranks = static_cast<double>(layout_.ranks_on_node());
    const auto passes = static_cast<double>(profile_.shared_update_passes);
    if (layout_.ranks_on_node() == 1 || passes == 0) return 1;
    return (passes + 2 * (ranks - 1)) / (passes * ranks);
  }

  void compute(double seconds) { rank_.compute(stretch_ * seconds, share_); }

  double all_reduce(double bytes) {
    return rank_.communicate(all_reduce_seconds(network_, options_.algorithm, layout_, bytes));
  }

  void backward() {
    rank_.wait_until(rank_.now() + turn_seconds_);
    double done = 0;
    for (const auto& bucket : profile_.buckets) {
      compute(bucket.ready_seconds - done);
      done = bucket.ready_seconds;
      averaged_.push_back(all_reduce(static_cast<double>(bucket.bytes)));
    }
    agreement_ = all_reduce(agreement_bytes);
    compute(profile_.backward_seconds - done);
  }

  void update() {
    double bytes = 0;
    for (const auto& bucket : profile_.buckets) bytes += static_cast<double>(bucket.bytes);
    if (!profile_.updates_by_bucket || profile_.buckets.empty()) rank_.wait_until(agreement_);
    if (profile_.buckets.empty()) return compute(optimizer_seconds_);
    for (std::size_t index = 0; index < profile_.buckets.size(); ++index) {
      const bool is_last = index + 1 == profile_.buckets.size();
      rank_.wait_until(is_last ? agreement_ : averaged_[index]);
      const double share = static_cast<double>(profile_.buckets[index].bytes) / bytes;
      compute(optimizer_seconds_ * share);
    }
  }

  const StepProfile& profile_;
  NetworkModel network_;
  RankLayout layout_;
  const SimulatorOptions& options_;
  double stretch_ = 1;
  double optimizer_seconds_ = 0;
  double share_ = 0;  // of the processor, that communication takes from computing
  double turn_seconds_ = 0;
  Rank rank_;
  std::vector<double> averaged_;  // when each bucket is
  double agreement_ = 0;
};

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
  check(layout);
  return Simulation(profile, network, layout, options).run();
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

// Those measured with about as many ranks side by side; of two numbers equally far, the larger.
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

std::vector<StudyPoint> predict_points(const StudyPrediction& prediction,
                                       std::span<const int> rank_counts) {
  std::vector<StudyPoint> points;
  for (const int ranks : rank_counts) {
    const auto step = predict_ranks(prediction, ranks);
    StudyPoint point;
    point.ranks = ranks;
    point.nodes = layout_of(prediction, ranks).nodes();
    point.batch_size = batch_of_rank(prediction, ranks);
    point.state = StudyPointState::predicted;
    auto& results = point.results;
    results.step_seconds = step.step_seconds;
    results.exposed_communication_seconds =
        step.exposed_communication_seconds + step.straggler_seconds;
    results.data_wait_seconds = step.data_wait_seconds;
    results.samples_per_second = static_cast<double>(point.batch_size) * ranks / step.step_seconds;
    if (prediction.samples_per_epoch > 0) {
      // Whole steps, the last one with fewer samples: many ranks leave an epoch few of them.
      const auto batch = static_cast<double>(point.batch_size) * ranks;
      const double steps = std::ceil(static_cast<double>(prediction.samples_per_epoch) / batch);
      results.epoch_seconds = steps * step.step_seconds;
    }
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace kolo
