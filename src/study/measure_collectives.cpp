#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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

// Memory as gradients have it: on the host such that ranks of a node reduce in place.
class AveragedMemory {
 public:
  AveragedMemory(const Communicator& communicator, std::int64_t bytes, const torch::Device& device)
      : communicator_(communicator), clock_(device) {
    if (device.is_cpu())
      host_ = communicator.allocate(narrow<std::size_t>(bytes));
    else
      there_ = torch::empty({bytes / float_bytes}, torch::TensorOptions(device));
  }

  // How long an average of so many bytes takes this rank. It writes them before: otherwise a
  // slice's owner would find what it has left itself in its cache, and reducing would seem several
  // times as fast.
  [[nodiscard]] double time_average(std::int64_t bytes) const {
    const auto count = bytes / float_bytes;
    auto* const values = reinterpret_cast<float*>(host_.get());
    const auto part = host_ ? torch::Tensor() : there_.narrow(0, 0, count);
    const auto buffer =
        host_ ? Buffer(std::span(values, narrow<std::size_t>(count))) : buffer_of(part);
    if (host_)
      std::fill_n(values, count, 1.F);
    else
      torch::Tensor(part).fill_(1);
    clock_.now().wait();
    communicator_.barrier();
    const auto begin = clock_.now();
    communicator_.all_reduce_async(buffer, ReduceOp::average).wait();
    return clock_.now().seconds_since(begin);
  }

 private:
  static constexpr std::int64_t float_bytes = sizeof(float);
  const Communicator& communicator_;
  DeviceClock clock_;
  std::shared_ptr<std::byte> host_;  // none: on a device
  torch::Tensor there_;
};

// The rank that this one sends messages to and gets them from: pairs of ranks which follow each
// other, on the same node unless nodes have just one. None for the last one of an odd number.
std::optional<int> partner_of(const Topology& topology, int rank, int ranks_per_node) {
  std::vector<int> together;  // those that are paired among themselves
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

// Messages between neighbours as halos are sent, from and to memory of their own.
class ExchangedMemory {
 public:
  ExchangedMemory(const Communicator& communicator, std::optional<int> partner, std::int64_t bytes,
                  const torch::Device& device)
      : communicator_(communicator), partner_(partner), clock_(device) {
    const auto options = torch::TensorOptions(device).dtype(torch::kByte);
    sent_ = torch::zeros({bytes}, options);
    received_ = torch::zeros({bytes}, options);
  }

  // How long both directions at once take this rank; 0 without a partner.
  [[nodiscard]] double time_exchange(std::int64_t bytes) const {
    auto sent = sent_.narrow(0, 0, bytes);
    sent.fill_(1);
    clock_.now().wait();
    communicator_.barrier();
    if (!partner_) return 0;
    const auto begin = clock_.now();
    const std::vector transfers{
        Transfer::receive(buffer_of(received_.narrow(0, 0, bytes)), *partner_),
        Transfer::send(buffer_of(sent), *partner_)};
    communicator_.exchange_async(transfers, {.name = "message"}).wait();
    return clock_.now().seconds_since(begin);
  }

 private:
  const Communicator& communicator_;
  std::optional<int> partner_;
  DeviceClock clock_;
  torch::Tensor sent_, received_;
};

// How long the slowest rank takes, half of the times; `time_once`: this rank's, of one call.
double median_of_slowest(const Communicator& communicator,
                         const std::function<double()>& time_once) {
  constexpr double enough_seconds = .1;
  constexpr std::size_t warmup = 2, fewest_calls = 5, most_calls = 1000;
  std::vector<double> seconds;
  double spent = 0;
  for (std::size_t call = 0; call < most_calls; ++call) {
    const double mine = time_once();
    if (call < warmup) continue;
    const double slowest = all_reduce_value(communicator, mine, ReduceOp::max);
    seconds.push_back(slowest);
    spent += slowest;  // the same on all ranks, so that all stop together
    if (spent > enough_seconds && seconds.size() >= fewest_calls) break;
  }
  return median(std::move(seconds));
}

// Each size twice the one before, until one takes too long. `time_once`: this rank's time of one
// call with so many bytes.
std::vector<CollectiveMeasurement::Point> measure_sizes(
    const Communicator& communicator, std::int64_t smallest, std::int64_t largest,
    const std::function<double(std::int64_t)>& time_once) {
  constexpr double longest_seconds = .5;
  std::vector<CollectiveMeasurement::Point> points;
  for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 2) {
    const double seconds = median_of_slowest(communicator, [&] { return time_once(bytes); });
    points.push_back({static_cast<double>(bytes), seconds});
    if (seconds > longest_seconds) break;
  }
  return points;
}

}  // namespace

CollectiveMeasurement measure_collectives(const Communicator& communicator,
                                          const torch::Device& device) {
  constexpr std::int64_t smallest = std::int64_t{4} << 10, largest = std::int64_t{64} << 20;
  constexpr std::int64_t largest_message = std::int64_t{16} << 20;
  CollectiveMeasurement measurement;
  measurement.layout = rank_layout(communicator);
  const AveragedMemory averaged(communicator, largest, device);
  measurement.points = measure_sizes(communicator, smallest, largest, [&](std::int64_t bytes) {
    return averaged.time_average(bytes);
  });
  const ExchangedMemory exchanged(
      communicator,
      partner_of(communicator.topology(), communicator.rank(), measurement.layout.ranks_per_node),
      largest_message, device);
  measurement.messages =
      measure_sizes(communicator, smallest, largest_message,
                    [&](std::int64_t bytes) { return exchanged.time_exchange(bytes); });
  measurement.device = device_name(device);
  if (!device.is_cpu()) measurement.channel = communicator.capabilities().device_transport;
  return measurement;
}

namespace {

int cores_of_node() {
  const auto limits = detect_cpu_limits();
  const int quota = limits.quota ? static_cast<int>(std::ceil(*limits.quota)) : limits.online;
  return std::max(1, std::min(limits.online, quota));
}

int ranks_on_fullest_node(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.nodes));
  for (const int node : topology.node_of_rank) ++ranks[static_cast<std::size_t>(node)];
  return *std::max_element(ranks.begin(), ranks.end());
}

}  // namespace

RankLayout rank_layout(const Communicator& communicator) {
  return {communicator.size(), ranks_on_fullest_node(communicator.topology()), cores_of_node()};
}

}  // namespace kolo
