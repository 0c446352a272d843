#include "step_work.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace kolo {

namespace {

constexpr double metrics_bytes = 40, agreement_bytes = 24;

// A rank's two threads: one computes, one communicates, and while it does so takes `share` of the
// processor from the first.
class Rank {
 public:
  void compute(double seconds, double share) {
    const double shared_time = std::max(0., busy_until() - now_);
    const double done_meanwhile = std::min(seconds, shared_time * (1 - share));
    if (done_meanwhile < seconds)
      now_ += shared_time + seconds - done_meanwhile;
    else if (seconds > 0)
      now_ += seconds / (1 - share);
  }

  // Messages of the computing thread, which waits for them. While collectives are on their way,
  // both have half of the links.
  void exchange(double seconds) {
    const double shared = std::min(seconds, std::max(0., busy_until() - now_));
    for (auto& end : ends_) {
      if (end > now_) end += shared;
    }
    now_ += seconds + shared;
  }

  // Hands a collective to the communication thread, which does one after another; returns its
  // number.
  std::size_t communicate(double seconds) {
    ends_.push_back(std::max(now_, busy_until()) + seconds);
    communication_ += seconds;
    return ends_.size() - 1;
  }

  void wait_for(std::size_t collective) { wait_until(ends_[collective]); }
  void wait_until(double time) { now_ = std::max(now_, time); }

  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] double communication() const { return communication_; }

 private:
  [[nodiscard]] double busy_until() const { return ends_.empty() ? 0 : ends_.back(); }

  double now_ = 0;
  std::vector<double> ends_;  // of collectives
  double communication_ = 0;
};

class Simulation {
 public:
  Simulation(const StepProfile& profile, const StepWork& work, const NetworkModel& network,
             const RankLayout& layout, const SimulatorOptions& options)
      : profile_(profile),
        work_(work),
        network_(profile.device.empty() ? network : between_devices(network)),
        layout_(profile.device.empty() ? layout : with_own_devices(layout)),
        options_(options),
        optimizer_seconds_(profile.optimizer_seconds) {
    if (profile.device.empty()) share_cores();
    const double measured = profile.forward_seconds + profile.backward_seconds;
    if (measured > 0)
      work_share_ = (seconds_of(work.forward) + seconds_of(work.backward)) / measured;
  }

  [[nodiscard]] StepPrediction run() {
    StepPrediction prediction;
    prediction.data_wait_seconds = work_.data_share * profile_.data_wait_seconds;
    const double passes = seconds_of(work_.forward) + seconds_of(work_.backward);
    prediction.compute_seconds = stretch_ * (passes + optimizer_seconds_);
    for (const auto& piece : work_.forward) {
      exchange(piece);
      compute(piece.share * piece.measured_seconds);
    }
    const auto metrics = all_reduce(metrics_bytes);
    backward();
    update();
    rank_.wait_for(metrics);
    prediction.communication_seconds = rank_.communication();
    prediction.halo_seconds = halo_seconds_;
    prediction.exposed_communication_seconds =
        std::max(0., rank_.now() - prediction.compute_seconds - halo_seconds_);
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
      const double longest = stretch_ * seconds_of(work_.backward) / 2;
      turn_seconds_ = share_ * std::min(options_.turn_seconds, longest);
    }
  }

  [[nodiscard]] double slowest_behind_mean() const {
    const double measured =
        work_share_ * std::max(0., profile_.slowest_seconds - profile_.compute_seconds());
    const double here = expected_maximum(layout_.ranks);
    const double there = expected_maximum(profile_.ranks);
    if (layout_.ranks < profile_.ranks) return measured * here / there;
    return measured + work_share_ * profile_.deviation_seconds * (here - there);
  }

  [[nodiscard]] bool shares_updates() const {
    return layout_.ranks_on_node() > 1 && profile_.shared_update_passes > 0;
  }
  // Ranks of a single node average gradients in the update that they share.
  [[nodiscard]] bool averages_in_update() const {
    return shares_updates() && layout_.nodes() == 1 && profile_.updates_by_bucket;
  }
  // Share of an update's time that a rank takes: of its part of the memory, and of the other ranks'
  // gradients for it where it averages them.
  [[nodiscard]] double update_share() const {
    if (!shares_updates()) return 1;
    const auto ranks = static_cast<double>(layout_.ranks_on_node());
    const auto passes = static_cast<double>(profile_.shared_update_passes);
    return (passes + (averages_in_update() ? ranks - 1 : 0)) / (passes * ranks);
  }

  void compute(double seconds) { rank_.compute(stretch_ * seconds, share_); }

  void exchange(const WorkPiece& piece) {
    const double before = rank_.now();
    rank_.exchange(piece.exchange_seconds);
    halo_seconds_ += rank_.now() - before;
  }

  std::size_t all_reduce(double bytes) {
    return rank_.communicate(all_reduce_seconds(network_, options_.algorithm, layout_, bytes));
  }

  void backward() {
    rank_.wait_until(rank_.now() + turn_seconds_);
    auto bucket = profile_.buckets.begin();
    double done = 0;  // of the profile's seconds
    for (const auto& piece : work_.backward) {
      exchange(piece);
      const bool is_last = &piece == &work_.backward.back();
      const double end = done + piece.measured_seconds;
      for (; bucket != profile_.buckets.end() && (is_last || bucket->ready_seconds <= end);
           ++bucket) {
        const double ready = std::max(done, bucket->ready_seconds);
        compute(piece.share * (ready - done));
        done = ready;
        if (!averages_in_update())
          averaged_.push_back(all_reduce(static_cast<double>(bucket->bytes)));
      }
      if (is_last) agreement_ = all_reduce(agreement_bytes);
      compute(piece.share * std::max(0., end - done));
      done = end;
    }
  }

  void update() {
    double bytes = 0;
    for (const auto& bucket : profile_.buckets) bytes += static_cast<double>(bucket.bytes);
    const bool is_one_pass = averages_in_update() || profile_.buckets.empty();
    if (!profile_.updates_by_bucket || is_one_pass) rank_.wait_for(agreement_);
    if (is_one_pass) return compute(optimizer_seconds_);
    for (std::size_t index = 0; index < profile_.buckets.size(); ++index) {
      const bool is_last = index + 1 == profile_.buckets.size();
      rank_.wait_for(is_last ? agreement_ : averaged_[index]);
      const double share = static_cast<double>(profile_.buckets[index].bytes) / bytes;
      compute(optimizer_seconds_ * share);
    }
  }

  static double seconds_of(std::span<const WorkPiece> pieces) {
    double sum = 0;
    for (const auto& piece : pieces) sum += piece.share * piece.measured_seconds;
    return sum;
  }

  const StepProfile& profile_;
  const StepWork& work_;
  NetworkModel network_;
  RankLayout layout_;
  const SimulatorOptions& options_;
  double stretch_ = 1;
  double optimizer_seconds_ = 0;
  double share_ = 0;  // of the processor, that communication takes from computing
  double turn_seconds_ = 0;
  double work_share_ = 1;  // of both passes
  Rank rank_;
  double halo_seconds_ = 0;
  std::vector<std::size_t> averaged_;  // the collective of each bucket
  std::size_t agreement_ = 0;
};

}  // namespace

StepPrediction play_step(const StepProfile& profile, const StepWork& work,
                         const NetworkModel& network, const RankLayout& layout,
                         const SimulatorOptions& options) {
  check(layout);
  return Simulation(profile, work, network, layout, options).run();
}

}  // namespace kolo
