#include "kolo/scaling/predict_pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr double agreement_bytes = 24;

// A bucket of the rank's, in time.
struct ReadyBucket {
  double bytes = 0;
  double ready = 0;
  double update_seconds = 0;
};

class PipelineSimulation {
 public:
  PipelineSimulation(const PipelineProfile& profile, const NetworkModel& network,
                     const RankLayout& layout, const SimulatorOptions& options)
      : profile_(profile),
        shape_(profile.shape),
        network_(profile.is_on_devices ? between_devices(network) : network),
        layout_(profile.is_on_devices ? with_own_devices(layout) : layout),
        options_(options),
        replicas_(layout.ranks / profile.shape.ranks) {
    const double threads = static_cast<double>(layout_.ranks_on_node()) * profile.threads;
    if (!profile.is_on_devices)
      stretch_ = std::max(1., std::ceil(threads / layout_.cores_per_node));
  }

  [[nodiscard]] PipelinePrediction run() {
    PipelinePrediction prediction;
    play_ = play_pipeline(plan_pipeline(shape_), times());
    prediction.pipeline_seconds = play_.makespan;
    prediction.idle_share = play_.idle_share();
    prediction.ideal_idle_share = ideal_idle_share(shape_);
    for (const auto& rank : play_.ranks)
      prediction.compute_seconds = std::max(prediction.compute_seconds, rank.busy);
    for (int rank = 0; rank < shape_.ranks; ++rank)
      prediction.kept_bytes.push_back(kept_bytes(rank));
    finish(prediction);
    return prediction;
  }

 private:
  [[nodiscard]] const PipelineStageProfile& stage(int number) const {
    return profile_.stages[static_cast<std::size_t>(number)];
  }

  [[nodiscard]] PipelineTimes times() const {
    PipelineTimes times;
    for (int number = 0; number < shape_.ranks; ++number) {
      const auto& seconds = stage(number).seconds;
      times.stages.push_back({stretch_ * seconds.forward, stretch_ * seconds.backward});
      const bool is_last = number + 1 == shape_.ranks;
      times.transfers.push_back(is_last ? 0 : transfer_seconds(number));
    }
    return times;
  }

  [[nodiscard]] int node_of(int rank) const { return rank / layout_.ranks_per_node; }

  // From a stage to the next, of the replica for which it takes longest.
  [[nodiscard]] double transfer_seconds(int from) const {
    const auto bytes = static_cast<double>(stage(from).bytes_after);
    // By node, in the order of ranks: how many replicas send from there to another.
    int most_leaving = 0, leaving = 0, node = -1;
    for (int replica = 0; replica < replicas_; ++replica) {
      const auto here = node_of(from * replicas_ + replica);
      if (here != node) leaving = 0;
      node = here;
      leaving += here != node_of((from + 1) * replicas_ + replica) ? 1 : 0;
      most_leaving = std::max(most_leaving, leaving);
    }
    const auto& link = network_.message_link(most_leaving == 0);
    return link.latency_seconds + std::max(1, most_leaving) * bytes / link.bytes_per_second;
  }

  [[nodiscard]] std::int64_t kept_bytes(int rank) const {
    const std::int64_t most = play_.ranks[static_cast<std::size_t>(rank)].most_kept;
    return checked_multiply(most, stage(rank).kept_bytes);
  }

  [[nodiscard]] bool finishes_gradients(const PipelineAction& action) const {
    return action.work == PipelineWork::backward && action.micro_batch + 1 == shape_.micro_batches;
  }

  [[nodiscard]] std::vector<ReadyBucket> buckets_of(int rank) const {
    std::vector<ReadyBucket> buckets;
    for (const auto& span : play_.spans) {
      if (span.rank != rank || !finishes_gradients(span.action)) continue;
      const auto& of = stage(rank);
      double bytes = 0;
      for (const auto& bucket : of.buckets) bytes += static_cast<double>(bucket.bytes);
      for (const auto& bucket : of.buckets) {
        const auto size = static_cast<double>(bucket.bytes);
        const auto ready = std::min(span.end, span.begin + stretch_ * bucket.ready_seconds);
        buckets.push_back({size, ready, stretch_ * of.optimizer_seconds * size / bytes});
      }
    }
    return buckets;
  }

  [[nodiscard]] double all_reduce(double bytes) const {
    auto group = layout_;
    group.ranks = replicas_;
    // Of the node's cores those of this rank's replicas.
    const auto cores = static_cast<double>(layout_.cores_per_node) * group.ranks_on_node() /
                       layout_.ranks_on_node();
    group.cores_per_node = std::max(1, static_cast<int>(cores));
    return all_reduce_seconds(network_, options_.algorithm, group, bytes);
  }

  // Averaging and updates of a rank's buckets, one after another each.
  void finish(PipelinePrediction& prediction) const {
    std::vector<std::vector<ReadyBucket>> buckets;
    std::vector<double> pass_ends(static_cast<std::size_t>(shape_.ranks), 0);
    for (const auto& span : play_.spans) {
      auto& end = pass_ends[static_cast<std::size_t>(span.rank)];
      end = std::max(end, span.end);
    }
    double all_averaged = 0, silent_end = 0, end = 0;
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      double busy_until = 0, communication = 0, silent = pass_ends[static_cast<std::size_t>(rank)];
      for (auto& bucket : buckets.emplace_back(buckets_of(rank))) {
        const auto seconds = all_reduce(bucket.bytes);
        bucket.ready = busy_until = std::max(busy_until, bucket.ready) + seconds;
        communication += seconds;
        silent += bucket.update_seconds;
      }
      all_averaged = std::max(all_averaged, busy_until);
      silent_end = std::max(silent_end, silent);
      prediction.communication_seconds = std::max(prediction.communication_seconds, communication);
    }
    const auto agreement =
        all_reduce_seconds(network_, options_.algorithm, layout_, agreement_bytes);
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      auto now = pass_ends[static_cast<std::size_t>(rank)];
      if (!profile_.updates_by_bucket)
        now = std::max({now, play_.makespan, all_averaged}) + agreement;
      for (const auto& bucket : buckets[static_cast<std::size_t>(rank)])
        now = std::max(now, bucket.ready) + bucket.update_seconds;
      end = std::max(end, now);
    }
    prediction.step_seconds = end + (profile_.updates_by_bucket ? agreement : 0);
    prediction.exposed_communication_seconds = prediction.step_seconds - silent_end;
  }

  const PipelineProfile& profile_;
  const PipelineShape& shape_;
  NetworkModel network_;
  RankLayout layout_;
  const SimulatorOptions& options_;
  int replicas_;
  double stretch_ = 1;
  PipelinePlay play_;
};

}  // namespace

PipelinePrediction predict_pipeline_step(const PipelineProfile& profile,
                                         const NetworkModel& network, const RankLayout& layout,
                                         const SimulatorOptions& options) {
  check(layout);
  const auto ranks = profile.shape.ranks;
  if (ranks < 1 || layout.ranks % ranks != 0) {
    throw Error(fmt::format("scaling: {} ranks for a pipeline of {}; expected a multiple of them",
                            layout.ranks, ranks));
  }
  if (static_cast<std::int64_t>(profile.stages.size()) != ranks) {
    throw InputError(fmt::format("scaling: a pipeline of {} stages, of which {} were measured",
                                 ranks, profile.stages.size()));
  }
  return PipelineSimulation(profile, network, layout, options).run();
}

}  // namespace kolo
