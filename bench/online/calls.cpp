#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/statistics.h"
#include "kolo/online/online_network.h"
#include "online/measure.h"

namespace kolo {
namespace {

// Seconds per call, of the slowest rank; the median of rounds.
double time_of(const OnlineBench& bench, const std::function<void()>& call) {
  std::vector<double> rounds;
  for (int round = 0; round <= bench.rounds; ++round) {
    bench.ranks.barrier();
    const Stopwatch watch;
    for (std::int64_t i = 0; i < bench.steps; ++i) call();
    const double seconds = slowest(bench.ranks, watch.seconds());
    if (round > 0) rounds.push_back(seconds / static_cast<double>(bench.steps));
  }
  return median(rounds);
}

double tick_time(const OnlineBench& bench, const std::vector<std::string>& overrides) {
  OnlineNetwork network(bench.ranks, closure_config(overrides));
  std::int64_t time_step = 0;
  return time_of(bench, [&] { network.tick(++time_step); });
}

// Samples of 32x32 floats each way, and cells of eight doubles and one.
void add_pushes(const OnlineBench& bench, std::vector<Figure>& figures) {
  constexpr std::int64_t side = 32, fields = 16, features = 8;
  std::vector<float> input(fields * side * side, .5F), target = input, copy(2 * input.size());
  {
    const auto config = load_online_config(
        "model: {name: mlp, hidden: [], inputs: [1024], outputs: [1024]}\n"
        "training: {samples: batch, loss: mse, log_every: 0}\n"
        "optimizer: {name: adam, lr: 1e-3}\n"
        "reservoir: {policy: fifo, capacity: 8 MiB}\n");
    OnlineNetwork network(bench.ranks, config);
    const Array from(input.data(), {fields, side * side}), to(target.data(), {fields, side * side});
    const double pushed =
        time_of(bench, [&] { network.push(std::span(&from, 1), std::span(&to, 1)); });
    const double copied = time_of(bench, [&] {
      std::memcpy(copy.data(), input.data(), input.size() * sizeof(float));
      std::memcpy(copy.data() + input.size(), target.data(), target.size() * sizeof(float));
    });
    figures.push_back({"push(), per sample of 8 KiB", 1e9 * pushed / fields, "ns"});
    figures.push_back({"a copy of it", 1e9 * copied / fields, "ns"});
  }
  std::vector<double> cells((features + 1) * side * side, .5);
  std::vector<Array> inputs;
  for (std::int64_t i = 0; i < features; ++i)
    inputs.push_back(Array(cells.data() + i * side * side, {side, side}));
  const Array wanted(cells.data() + features * side * side, {side, side});
  OnlineNetwork network(bench.ranks, closure_config({"reservoir.policy=fifo"}));
  const double pushed = time_of(bench, [&] { network.push(inputs, std::span(&wanted, 1)); });
  figures.push_back({"push(), per cell of 8 and 1 float64", 1e9 * pushed / (side * side), "ns"});
}

}  // namespace

std::vector<Figure> measure_calls(const OnlineBench& bench) {
  std::vector<Figure> figures;
  figures.push_back({"tick() between those that train",
                     1e6 * tick_time(bench, {"training.every=1000000000"}), "us"});
  figures.push_back({"tick() that finds no samples", 1e6 * tick_time(bench, {}), "us"});
  add_pushes(bench, figures);
  return figures;
}

}  // namespace kolo
