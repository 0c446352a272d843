#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/base/checked.h"

// Measurements of a step and of collectives, as `kolo bench --profile --json` has them. Steps on
// more ranks are predicted from them (extras/simulate).
namespace kolo {

// Places of ranks: full nodes, but perhaps the last one.
struct RankLayout {
  int ranks = 1;
  int ranks_per_node = 1;
  int cores_per_node = 1;  // for all ranks of the node together

  [[nodiscard]] int nodes() const { return divide_up(ranks, ranks_per_node); }
  [[nodiscard]] int ranks_on_node() const {
    return ranks < ranks_per_node ? ranks : ranks_per_node;
  }
};

// A bucket of gradients, and when in backward it is ready to be averaged.
struct BucketProfile {
  std::int64_t bytes = 0;
  double ready_seconds = 0;  // from backward's beginning; ascending over the buckets
};

// A training step as one rank does it, without communication: "profile" of the object. Times are
// medians over steps, and means over the ranks that were measured together.
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
  // Forward + backward + optimizer: the time of the slowest rank of each step, and the standard
  // deviation from step to step on one rank.
  double slowest_seconds = 0;
  double deviation_seconds = 0;
  // Buckets are updated as soon as they are averaged, rather than when all are (for clipping, a
  // loss scale, or checks of all gradients).
  bool updates_by_bucket = true;
  // Times that an update reads or writes a parameter's worth of memory (parameters, gradients,
  // state), where the ranks of a node share steps when they communicate; 0: they don't. Those of a
  // single node also average gradients in it, if updates_by_bucket.
  std::int64_t shared_update_passes = 0;
  std::vector<BucketProfile> buckets;

  [[nodiscard]] double compute_seconds() const {
    return forward_seconds + backward_seconds + optimizer_seconds;
  }
  [[nodiscard]] nlohmann::ordered_json to_json() const;
  // Error: not what to_json() makes, naming the key.
  [[nodiscard]] static StepProfile from_json(const nlohmann::ordered_json& document);
};

// Times of all-reduces among some ranks: "collectives" of the object.
struct CollectiveMeasurement {
  struct Point {
    double bytes = 0;  // a rank
    double seconds = 0;
  };
  RankLayout layout;
  std::vector<Point> points;
  // Messages of so many bytes that two neighbours send each other at once, all pairs of ranks at
  // the same time; empty where none were measured.
  std::vector<Point> messages = {};
  // A rank's device, as its maker calls it, whose memory was averaged, and by what: "NCCL 2.28.9".
  // Empty: the host's memory.
  std::string device = {}, channel = {};

  // Neighbours are ranks of one node wherever nodes have several.
  [[nodiscard]] bool messages_are_within_node() const { return layout.ranks_per_node > 1; }

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  // Error: not what to_json() makes, naming the key.
  [[nodiscard]] static CollectiveMeasurement from_json(const nlohmann::ordered_json& document);
};

}  // namespace kolo
