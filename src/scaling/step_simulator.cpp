#include "kolo/scaling/step_simulator.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numbers>
#include <vector>

namespace kolo {

namespace {

constexpr double metrics_bytes = 40, agreement_bytes = 24;

// A part of a collective: how long it takes, and how much of its rank's processor, from 0 to 1.
struct Stage {
  double seconds = 0;
  double processor_share = 0;
};

// A rank's two threads: one computes, one communicates; where both are on one core, the second
// slows down the first.
class Rank {
 public:
  void compute(double seconds) {
    while (seconds > 0) {
      drop_past_stages();
      if (running_.empty()) {
        now_ += seconds;
        return;
      }
      const Running& stage = running_.front();
      const double speed = 1 - stage.processor_share;
      const double window = stage.end - now_;
      if (window * speed >= seconds) {
        now_ += seconds / speed;
        return;
      }
      seconds -= window * speed;
      now_ = stage.end;
    }
  }

  // Hands a collective to the communication thread; returns when it will be done.
  double communicate(const std::vector<Stage>& collective) {
    for (const Stage& stage : collective) {
      last_end_ = std::max(now_, last_end_) + stage.seconds;
      running_.push_back({last_end_, stage.processor_share});
      communication_ += stage.seconds;
    }
    return last_end_;
  }

  void wait_until(double time) { now_ = std::max(now_, time); }

  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] double communication() const { return communication_; }

 private:
  // Stages follow each other without a gap as long as computing does not pass their end, so the
  // first that has not ended is the one that runs.
  struct Running {
    double end = 0;
    double processor_share = 0;
  };

  void drop_past_stages() {
    while (!running_.empty() && running_.front().end <= now_) running_.pop_front();
  }

  double now_ = 0;
  double last_end_ = 0;
  double communication_ = 0;
  std::deque<Running> running_;
};

class Simulation {
 public:
  Simulation(const StepProfile& profile, const NetworkModel& network, const RankLayout& layout,
             const SimulatorOptions& options)
      : profile_(profile), network_(network), layout_(layout), options_(options) {
    const double wanted = static_cast<double>(layout.ranks_on_node()) * profile.threads;
    const double measured = static_cast<double>(profile.ranks_per_node) * profile.threads;
    // Ranks wait for each other in every step, so the core that has the most of them decides.
    stretch_ = std::max(1., std::ceil(wanted / layout.cores_per_node)) /
               std::max(1., std::ceil(measured / profile.cores_per_node));
    const double spare_cores = layout.cores_per_node - wanted;
    missing_core_ = std::clamp(1 - spare_cores / layout.ranks_on_node(), 0., 1.);
  }

  [[nodiscard]] StepPrediction run() {
    StepPrediction prediction;
    prediction.data_wait_seconds = profile_.data_wait_seconds;
    prediction.compute_seconds = stretch_ * profile_.compute_seconds();
    rank_.compute(stretch_ * profile_.forward_seconds);
    const double metrics = rank_.communicate(collective(metrics_bytes));
    backward();
    update();
    rank_.wait_until(metrics);
    prediction.communication_seconds = rank_.communication();
    prediction.exposed_communication_seconds = rank_.now() - prediction.compute_seconds;
    if (options_.stragglers) prediction.straggler_seconds = stretch_ * slowest_behind_mean();
    prediction.step_seconds =
        rank_.now() + prediction.data_wait_seconds + prediction.straggler_seconds;
    return prediction;
  }

 private:
  [[nodiscard]] double slowest_behind_mean() const {
    const double measured = std::max(0., profile_.slowest_seconds - profile_.compute_seconds());
    const double here = expected_maximum(layout_.ranks);
    const double there = expected_maximum(profile_.ranks);
    if (layout_.ranks < profile_.ranks) return measured * here / there;
    return measured + profile_.deviation_seconds * (here - there);
  }

  [[nodiscard]] std::vector<Stage> collective(double bytes) const {
    if (layout_.ranks == 1) return {};
    const double in_memory = missing_core_ * options_.processor_share_in_memory;
    const double on_network = missing_core_ * options_.processor_share_on_network;
    if (options_.algorithm != AllReduceAlgorithm::hierarchical) {
      return {{all_reduce_seconds(network_, options_.algorithm, layout_, bytes),
               layout_.nodes() == 1 ? in_memory : on_network}};
    }
    return {{node_stage_seconds(network_, layout_, bytes), in_memory},
            {between_nodes_seconds(network_, layout_, bytes), on_network}};
  }

  void backward() {
    double done = 0;
    for (const auto& bucket : profile_.buckets) {
      rank_.compute(stretch_ * (bucket.ready_seconds - done));
      done = bucket.ready_seconds;
      averaged_.push_back(rank_.communicate(collective(static_cast<double>(bucket.bytes))));
    }
    agreement_ = rank_.communicate(collective(agreement_bytes));
    rank_.compute(stretch_ * (profile_.backward_seconds - done));
  }

  void update() {
    double bytes = 0;
    for (const auto& bucket : profile_.buckets) bytes += static_cast<double>(bucket.bytes);
    if (!profile_.updates_by_bucket || profile_.buckets.empty()) rank_.wait_until(agreement_);
    if (profile_.buckets.empty()) return rank_.compute(stretch_ * profile_.optimizer_seconds);
    for (std::size_t index = 0; index < profile_.buckets.size(); ++index) {
      const bool is_last = index + 1 == profile_.buckets.size();
      rank_.wait_until(is_last ? agreement_ : averaged_[index]);
      const double share = static_cast<double>(profile_.buckets[index].bytes) / bytes;
      rank_.compute(stretch_ * profile_.optimizer_seconds * share);
    }
  }

  const StepProfile& profile_;
  const NetworkModel& network_;
  const RankLayout& layout_;
  const SimulatorOptions& options_;
  double stretch_ = 1;
  double missing_core_ = 1;  // 1: the communication thread has no core of its own; 0: it has
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

}  // namespace kolo
