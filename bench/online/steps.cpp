#include <functional>
#include <span>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/statistics.h"
#include "kolo/online/online_network.h"
#include "online/advection.h"
#include "online/measure.h"
#include "online/networks.h"
#include "peers/per_tensor_all_reduce.h"

namespace kolo {
namespace {

OnlineConfig steps_config(std::int64_t batch) {
  return load_online_config(
      "model: {name: own}\n"
      "training: {samples: batch, loss: mse, log_every: 0}\n"
      "optimizer: {name: adam, lr: 1e-3}\n"
      "reservoir: {policy: uniform, capacity: 16 MiB}\n",
      std::vector{fmt::format("training.batch_size={}", batch)});
}

// One way to make steps, with a solver of its own, and what its rounds took.
struct Way {
  std::string name;
  std::function<void(const Advection&)> step;
  std::function<double()> checksum = {};
  Advection solver;
  std::vector<double> seconds = {};

  // Makes time steps of the solver, each with a step of training.
  void run(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) {
      solver.advance();
      step(solver);
    }
  }
};

class Batch {
 public:
  Batch(const TimedNetwork& network, std::int64_t samples) : lengths_(network.sample) {
    lengths_.insert(lengths_.begin(), samples);
  }
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }
  [[nodiscard]] Array of(const std::vector<float>& values) const {
    return Array(const_cast<float*>(values.data()), DataType::float32, lengths_);
  }

 private:
  std::vector<std::int64_t> lengths_;
};

Way peer(const OnlineBench& bench) {
  const auto timed = timed_network(bench.network);
  const auto peer = std::make_shared<peers::PerTensorAllReduce>(bench.communicator, timed.make());
  return {.name = "all-reduces per tensor",
          .step =
              [peer, batch = Batch(timed, bench.batch)](const Advection& wave) {
                (void)peer->train(wave.fields(), wave.divergences(), batch.lengths());
              },
          .solver = Advection(bench.batch, bench.ranks.rank())};
}

std::vector<Way> make_ways(const OnlineBench& bench) {
  const auto timed = timed_network(bench.network);
  const Batch batch(timed, bench.batch);
  const Advection solver(bench.batch, bench.ranks.rank());
  const auto make_network = [&] {
    OnlineComponents components;
    components.network = timed.make;
    return std::make_shared<OnlineNetwork>(bench.ranks, steps_config(bench.batch),
                                           std::move(components));
  };
  const auto trained = make_network(), ticking = make_network();
  std::vector<Way> ways;
  ways.push_back({.name = "the solver alone", .step = [](const Advection&) {}, .solver = solver});
  ways.push_back({.name = "train()",
                  .step =
                      [trained, batch](const Advection& wave) {
                        const auto input = batch.of(wave.fields());
                        const auto target = batch.of(wave.divergences());
                        (void)trained->train(std::span(&input, 1), std::span(&target, 1));
                      },
                  .checksum = [trained] { return trained->get("checksum"); },
                  .solver = solver});
  ways.push_back({.name = "push() and tick()",
                  .step =
                      [ticking, batch, time_step = std::int64_t{0}](const Advection& wave) mutable {
                        const auto input = batch.of(wave.fields());
                        const auto target = batch.of(wave.divergences());
                        ticking->push(std::span(&input, 1), std::span(&target, 1));
                        ticking->tick(++time_step);
                      },
                  .checksum = [ticking] { return ticking->get("checksum"); },
                  .solver = solver});
  ways.push_back(peer(bench));
  return ways;
}

// Runs them in turns.
void time(std::vector<Way>& ways, const OnlineBench& bench) {
  for (auto& way : ways) way.run(bench.warm_up);
  for (int round = 0; round < bench.rounds; ++round) {
    for (auto& way : ways) {
      bench.ranks.barrier();
      const Stopwatch watch;
      way.run(bench.steps);
      way.seconds.push_back(slowest(bench.ranks, watch.seconds()));
    }
  }
}

}  // namespace

std::vector<Figure> measure_peer(const OnlineBench& bench) {
  std::vector<Way> ways = {peer(bench)};
  time(ways, bench);
  const auto& only = ways.front();
  return {{only.name, static_cast<double>(bench.steps) / median(only.seconds), "steps/s"}};
}

std::vector<Figure> measure_steps(const OnlineBench& bench) {
  auto ways = make_ways(bench);
  time(ways, bench);
  std::vector<Figure> figures;
  const auto rate = [&](const Way& way) {
    return static_cast<double>(bench.steps) / median(way.seconds);
  };
  for (const auto& way : ways) {
    figures.push_back({way.name, rate(way), "steps/s"});
    if (way.checksum) figures.push_back({way.name + ", checksum", way.checksum(), ""});
  }
  for (std::size_t i : {1, 2}) {
    figures.push_back(
        {ways[i].name + " beside " + ways[3].name, rate(ways[i]) / rate(ways[3]), "times"});
  }
  return figures;
}

}  // namespace kolo
