#include "network_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr std::size_t fewest_points = 3;

struct Sample {
  RankLayout layout;
  double bytes, seconds;
};

double model_seconds(const NetworkModel& model, const Sample& sample) {
  return all_reduce_seconds(model, AllReduceAlgorithm::hierarchical, sample.layout, sample.bytes);
}

std::vector<Sample> samples_of(std::span<const CollectiveMeasurement> measurements,
                               bool across_nodes) {
  std::vector<Sample> samples;
  for (const auto& measurement : measurements) {
    check(measurement.layout);
    const auto layout =
        measurement.device.empty() ? measurement.layout : with_own_devices(measurement.layout);
    if (layout.ranks == 1 || (layout.nodes() > 1) != across_nodes) continue;
    for (const auto& [bytes, seconds] : measurement.points) {
      if (!(seconds > 0) || !(bytes > 0)) {
        throw InputError(fmt::format(
            "scaling: an all-reduce of {} bytes in {} seconds can't be; both are above 0", bytes,
            seconds));
      }
      samples.push_back({layout, bytes, seconds});
    }
  }
  return samples;
}

void require_enough(const std::vector<Sample>& samples, const char* where) {
  std::set<double> sizes;
  for (const auto& sample : samples) sizes.insert(sample.bytes);
  if (samples.size() >= fewest_points && sizes.size() >= 2) return;
  throw InputError(
      fmt::format("scaling: {} all-reduces of {} sizes were measured {}; a latency and a bandwidth "
                  "take at least "
                  "{} of two sizes (kolo bench FILE -n RANKS --profile --json measures them)",
                  samples.size(), sizes.size(), where, fewest_points));
}

struct LinkTerms {
  double latency, seconds_per_byte;
};

// Minimizes sum ((rest + a x + b y) / seconds - 1)^2 over x, y >= 0.
struct Equation {
  double a, b, rest, seconds;
};

LinkTerms solve(const std::vector<Equation>& equations) {
  double aa = 0, ab = 0, bb = 0, ac = 0, bc = 0;
  for (const auto& equation : equations) {
    const double a = equation.a / equation.seconds, b = equation.b / equation.seconds;
    const double c = 1 - equation.rest / equation.seconds;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    ac += a * c;
    bc += b * c;
  }
  const double determinant = aa * bb - ab * ab;
  const double x = (ac * bb - bc * ab) / determinant, y = (bc * aa - ac * ab) / determinant;
  if (determinant > 1e-12 * aa * bb && x >= 0 && y > 0) return {x, y};
  // Out of bounds: the optimum lies on a bound. Without a bandwidth the model would be of no use.
  return {0, std::max(bc / bb, 1e-15)};
}

// A straight line through the model at its present link: what latency and seconds a byte are
// multiplied with. The model is piecewise linear in both, so this is exact as long as the same
// algorithms stay the quickest.
Equation linearized(const NetworkModel& model, Link NetworkModel::*link, const Sample& sample) {
  constexpr double step = 1e-6;
  const Link now = model.*link;
  const double here = model_seconds(model, sample);
  const double byte_seconds = 1 / now.bytes_per_second;
  NetworkModel shifted = model;
  const double more_latency = step * std::max(now.latency_seconds, 1e-9);
  (shifted.*link).latency_seconds = now.latency_seconds + more_latency;
  const double a = (model_seconds(shifted, sample) - here) / more_latency;
  shifted = model;
  (shifted.*link).bytes_per_second = 1 / (byte_seconds * (1 + step));
  const double b = (model_seconds(shifted, sample) - here) / (byte_seconds * step);
  return {a, b, here - a * now.latency_seconds - b * byte_seconds, sample.seconds};
}

double squared_errors(const NetworkModel& model, const std::vector<Sample>& samples) {
  double sum = 0;
  for (const auto& sample : samples) {
    const double error = model_seconds(model, sample) / sample.seconds - 1;
    sum += error * error;
  }
  return sum;
}

// The quickest algorithms depend on the link that is looked for: solved for one choice, chosen
// anew, and so on. The best round counts, as two choices may take turns.
void fit_link(NetworkModel& model, Link NetworkModel::*link, const std::vector<Sample>& samples) {
  constexpr int rounds = 20;
  NetworkModel candidate = model;
  if (!((candidate.*link).bytes_per_second > 0)) candidate.*link = {1e-6, 1e9};
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    std::vector<Equation> equations;
    for (const auto& sample : samples) equations.push_back(linearized(candidate, link, sample));
    const auto [latency, byte_seconds] = solve(equations);
    candidate.*link = {latency, 1 / byte_seconds};
    const double errors = squared_errors(candidate, samples);
    if (errors >= least) continue;
    least = errors;
    model = candidate;
  }
}

}  // namespace

NetworkFit fit_network(std::span<const CollectiveMeasurement> measurements,
                       const NetworkModel& start) {
  const bool of_devices = std::any_of(measurements.begin(), measurements.end(),
                                      [](const auto& each) { return !each.device.empty(); });
  NetworkFit fit{of_devices ? between_devices(start) : start};
  const auto near = samples_of(measurements, false), far = samples_of(measurements, true);
  if (far.empty() || !near.empty()) {
    require_enough(near, "inside a node");
    fit_link(fit.model, &NetworkModel::within_node, near);
  }
  if (!far.empty()) {
    require_enough(far, "between nodes");
    fit_link(fit.model, &NetworkModel::between_nodes, far);
  }
  for (const auto* samples : {&near, &far}) {
    for (const auto& sample : *samples) {
      const double error = std::abs(model_seconds(fit.model, sample) / sample.seconds - 1);
      fit.mean_error += error;
      fit.largest_error = std::max(fit.largest_error, error);
      ++fit.points;
    }
  }
  fit.mean_error /= static_cast<double>(fit.points);
  return fit;
}

Link fit_messages(std::span<const CollectiveMeasurement::Point> points) {
  std::vector<Equation> equations;
  std::set<double> sizes;
  for (const auto& [bytes, seconds] : points) {
    if (!(seconds > 0) || !(bytes > 0)) {
      throw InputError(
          fmt::format("scaling: a message of {} bytes in {} seconds can't be; both are above 0",
                      bytes, seconds));
    }
    equations.push_back({1, bytes, 0, seconds});
    sizes.insert(bytes);
  }
  if (points.size() < fewest_points || sizes.size() < 2) {
    throw InputError(fmt::format(
        "scaling: {} messages of {} sizes were measured; a latency and a bandwidth take at least "
        "{} of two sizes",
        points.size(), sizes.size(), fewest_points));
  }
  const auto [latency, byte_seconds] = solve(equations);
  return {latency, 1 / byte_seconds};
}

}  // namespace kolo
