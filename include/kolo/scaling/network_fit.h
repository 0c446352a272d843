#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/scaling/network_model.h"

namespace kolo {

// How long all-reduces took among some ranks: what `kolo bench --collectives --json` has under
// "collectives".
struct CollectiveMeasurement {
  struct Point {
    double bytes = 0;  // a rank
    double seconds = 0;
  };
  RankLayout layout;
  std::vector<Point> points;

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  // Error: not what to_json() makes, naming the field.
  [[nodiscard]] static CollectiveMeasurement from_json(const nlohmann::ordered_json& document);
};

struct NetworkFit {
  NetworkModel model;
  std::size_t points = 0;  // that it was fitted to
  // |model / measured - 1| of the points.
  double mean_error = 0;
  double largest_error = 0;
};

// The latencies and bandwidths with which hierarchical all-reduces take the times measured: least
// squares of the relative errors, so that small and large messages count alike. Measurements inside
// one node give within_node, those over several nodes between_nodes; what no measurement tells, and
// the rate of reductions, stay as in `start`, of which no link need be known.
//
// InputError: a link has fewer than three points or a single size, or a time is not above 0.
[[nodiscard]] NetworkFit fit_network(std::span<const CollectiveMeasurement> measurements,
                                     const NetworkModel& start);

}  // namespace kolo
