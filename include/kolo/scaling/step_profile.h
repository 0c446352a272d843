#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kolo {

// When in backward a bucket of gradients is ready to be averaged.
struct BucketProfile {
  std::int64_t bytes = 0;
  double ready_seconds = 0;  // from backward's beginning; ascending over the buckets
};

// A training step as one rank does it, without communication: what `kolo bench --profile --json`
// has under "profile". Times are medians over steps, and means over the ranks that were measured
// together.
struct StepProfile {
  std::string name;        // of the network
  std::string device;      // a rank's, as its maker calls it; empty: it computed on processors
  int ranks = 1;           // that computed side by side while this was measured
  int ranks_per_node = 1;  // of them
  int cores_per_node = 1;
  int threads = 1;              // a rank
  std::int64_t batch_size = 1;  // a rank
  double forward_seconds = 0;   // with everything before backward: the loss, random seeds
  double backward_seconds = 0;
  double optimizer_seconds = 0;  // with everything after backward
  double data_wait_seconds = 0;
  // Of forward + backward + optimizer: what the slowest rank of each step takes, and the standard
  // deviation from step to step on one rank.
  double slowest_seconds = 0;
  double deviation_seconds = 0;
  // Buckets are updated as soon as they are averaged, rather than when all are (for clipping, a
  // loss scale, or checks of all gradients).
  bool updates_by_bucket = true;
  // How often an update reads or writes a parameter's worth of memory (parameters, gradients,
  // state), where the ranks of a node share steps when they communicate; 0: they don't.
  std::int64_t shared_update_passes = 0;
  std::vector<BucketProfile> buckets;

  [[nodiscard]] double compute_seconds() const {
    return forward_seconds + backward_seconds + optimizer_seconds;
  }
  [[nodiscard]] nlohmann::ordered_json to_json() const;
  // Error: not what to_json() makes, naming the field.
  [[nodiscard]] static StepProfile from_json(const nlohmann::ordered_json& document);
};

// The profile at another batch size: each time is a straight line through what was measured, t = a
// + b batch (least squares), with a and b at least 0; the optimizer's does not depend on the batch.
// All profiles are of one network and one bucket plan, with equal ranks on a node and equal
// devices. With one alone, times other than the optimizer's are taken as proportional to the batch.
//
// InputError: no profile, or they don't belong together.
[[nodiscard]] StepProfile profile_at_batch(std::span<const StepProfile> profiles,
                                           std::int64_t batch_size);

}  // namespace kolo
