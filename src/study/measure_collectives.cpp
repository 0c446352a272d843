#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "kolo/base/checked.h"
#include "kolo/base/machine.h"
#include "kolo/base/statistics.h"
#include "kolo/comm/transfer.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/study/measure.h"

namespace kolo {

namespace {

// Makes a call with so many bytes and returns the seconds that it took on this rank.
using TimedCall = std::function<double(std::int64_t bytes)>;

// Averages in memory as gradients have it: on the host, ranks of a node reduce it in place. Each
// call writes the values before; otherwise a slice's owner would find them in its own cache, and
// reducing would seem several times as fast.
TimedCall timed_average(const Communicator& communicator, std::int64_t most,
                        const torch::Device& device) {
  constexpr std::int64_t float_bytes = sizeof(float);
  const auto host = device.is_cpu() ? communicator.allocate(narrow<std::size_t>(most)) : nullptr;
  const auto values = host ? torch::from_blob(host.get(), {most / float_bytes})
                           : torch::empty({most / float_bytes}, torch::TensorOptions(device));
  return [&communicator, host, values, clock = DeviceClock(device)](std::int64_t bytes) {
    auto part = values.narrow(0, 0, bytes / float_bytes);
    if (host)
      std::fill_n(part.data_ptr<float>(), part.numel(), 1.F);
    else
      part.fill_(1);
    clock.now().wait();
    communicator.barrier();
    const auto begin = clock.now();
    communicator.all_reduce_async(buffer_of(part), ReduceOp::average).wait();
    return clock.now().seconds_since(begin);
  };
}

// The rank that this one sends messages to and gets them from: pairs of ranks which follow each
// other, on the same node unless nodes have just one. None for the last one of an odd number.
std::optional<int> partner_of(const Topology& topology, int rank, int ranks_per_node) {
  std::vector<int> together;  // ranks that are paired with each other
  for (int other = 0; other < topology.size; ++other) {
    const auto node_of = [&](int of) {
      return topology.node_of_rank[static_cast<std::size_t>(of)];
    };
    if (ranks_per_node == 1 || node_of(other) == node_of(rank)) together.push_back(other);
  }
  const auto place = static_cast<std::size_t>(std::ranges::find(together, rank) - together.begin());
  const auto partner = place ^ 1U;
  return partner < together.size() ? std::optional(together[partner]) : std::nullopt;
}

// Messages that two neighbours send each other at once, as halos are sent, from and to memory of
// their own; takes no time without a partner.
TimedCall timed_exchange(const Communicator& communicator, std::optional<int> partner,
                         std::int64_t most, const torch::Device& device) {
  const auto options = torch::TensorOptions(device).dtype(torch::kByte);
  const auto all_sent = torch::zeros({most}, options), received = torch::zeros({most}, options);
  return [&communicator, partner, all_sent, received,
          clock = DeviceClock(device)](std::int64_t bytes) {
    auto sent = all_sent.narrow(0, 0, bytes);
    sent.fill_(1);
    clock.now().wait();
    communicator.barrier();
    if (!partner) return 0.;
    const auto begin = clock.now();
    const std::vector transfers{
        Transfer::receive(buffer_of(received.narrow(0, 0, bytes)), *partner),
        Transfer::send(buffer_of(sent), *partner)};
    communicator.exchange_async(transfers, {.name = "message"}).wait();
    return clock.now().seconds_since(begin);
  };
}

// Median of the slowest rank's seconds.
double median_of_slowest(const Communicator& communicator, const TimedCall& time_once,
                         std::int64_t bytes) {
  constexpr double enough_seconds = .1;
  constexpr std::size_t warmup = 2, fewest_calls = 5, most_calls = 1000;
  std::vector<double> seconds;
  double spent = 0;
  for (std::size_t call = 0; call < most_calls; ++call) {
    const double mine = time_once(bytes);
    if (call < warmup) continue;
    const double slowest = all_reduce_value(communicator, mine, ReduceOp::max);
    seconds.push_back(slowest);
    spent += slowest;  // the same on all ranks, so that all stop together
    if (spent > enough_seconds && seconds.size() >= fewest_calls) break;
  }
  return median(std::move(seconds));
}

// Measures sizes, each twice the one before, until one takes too long.
std::vector<CollectiveMeasurement::Point> measure_sizes(const Communicator& communicator,
                                                        std::int64_t largest,
                                                        const TimedCall& time_once) {
  constexpr std::int64_t smallest = std::int64_t{4} << 10;
  constexpr double longest_seconds = .5;
  std::vector<CollectiveMeasurement::Point> points;
  for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 2) {
    const double seconds = median_of_slowest(communicator, time_once, bytes);
    points.push_back({static_cast<double>(bytes), seconds});
    if (seconds > longest_seconds) break;
  }
  return points;
}

}  // namespace

CollectiveMeasurement measure_collectives(const Communicator& communicator,
                                          const torch::Device& device) {
  constexpr std::int64_t largest = std::int64_t{64} << 20, largest_message = largest / 4;
  CollectiveMeasurement measurement;
  measurement.layout = rank_layout(communicator);
  measurement.points =
      measure_sizes(communicator, largest, timed_average(communicator, largest, device));
  const auto partner =
      partner_of(communicator.topology(), communicator.rank(), measurement.layout.ranks_per_node);
  measurement.messages =
      measure_sizes(communicator, largest_message,
                    timed_exchange(communicator, partner, largest_message, device));
  measurement.device = device_name(device);
  if (!device.is_cpu()) measurement.channel = communicator.capabilities().device_transport;
  return measurement;
}

RankLayout rank_layout(const Communicator& communicator) {
  const auto& topology = communicator.topology();
  std::vector<int> ranks(static_cast<std::size_t>(topology.nodes));
  for (const int node : topology.node_of_rank) ++ranks[static_cast<std::size_t>(node)];
  const auto limits = detect_cpu_limits();
  const int quota = limits.quota ? static_cast<int>(std::ceil(*limits.quota)) : limits.online;
  return {communicator.size(), std::ranges::max(ranks),
          std::max(1, std::min(limits.online, quota))};
}

}  // namespace kolo
