#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/statistics.h"
#include "kolo/online/online_network.h"
#include "online/measure.h"

namespace kolo {
namespace {

// A simulation that goes through a parameter p from 0 to 1. The function of x to learn depends on
// p, and each p comes once.
class Sweep {
 public:
  explicit Sweep(std::uint64_t seed) : random_(seed) {}

  void make(std::int64_t count, double p_from, double p_to) {
    std::uniform_real_distribution<double> place(-1, 1), parameter(p_from, p_to);
    for (auto* const values : {&x_, &p_, &y_}) values->resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < x_.size(); ++i) {
      x_[i] = place(random_);
      p_[i] = p_from < p_to ? parameter(random_) : p_from;
      y_[i] = std::sin(3 * x_[i] + 4 * p_[i]) + p_[i] * x_[i];
    }
  }
  [[nodiscard]] std::vector<Array> inputs() { return {array(x_), array(p_)}; }
  [[nodiscard]] std::vector<Array> targets() { return {array(y_)}; }

  // Root mean square error of the network, over all p.
  double error_of(const OnlineNetwork& network) {
    make(4096, 0, 1);
    std::vector<double> found(y_.size());
    const auto output = array(found);
    network.infer(inputs(), std::span(&output, 1));
    double squares = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      squares += (found[i] - y_[i]) * (found[i] - y_[i]);
    return std::sqrt(squares / static_cast<double>(found.size()));
  }

 private:
  static Array array(std::vector<double>& values) {
    return Array(values.data(), {static_cast<std::int64_t>(values.size())});
  }

  std::mt19937_64 random_;
  std::vector<double> x_, p_, y_;
};

// One training step per time step; the newest 32 samples alone are a fifo of this many.
double error_after(const OnlineBench& bench, std::uint64_t seed, bool keeps) {
  constexpr std::int64_t batch = 32, bytes = 16;  // two inputs; a target, and its padding
  const auto config = load_online_config(
      "model: {name: mlp, hidden: [32, 32], activation: tanh, inputs: [2], outputs: [1]}\n"
      "training: {samples: cells, batch_size: 32, loss: mse, log_every: 0}\n"
      "optimizer: {name: adam, lr: 3e-3}\n",
      std::vector{fmt::format("seed={}", seed),
                  fmt::format("reservoir.policy={}", keeps ? "uniform" : "fifo"),
                  fmt::format("reservoir.capacity={}", (keeps ? 128 : 1) * batch * bytes)});
  OnlineNetwork network(bench.ranks, config);
  Sweep sweep(seed * 1000 + static_cast<std::uint64_t>(bench.ranks.rank()));
  for (std::int64_t step = 0; step < bench.steps; ++step) {
    const double p = static_cast<double>(step) / static_cast<double>(bench.steps - 1);
    sweep.make(batch, p, p);
    network.push(sweep.inputs(), sweep.targets());
    network.tick(step);
  }
  return Sweep(9).error_of(network);
}

}  // namespace

std::vector<Figure> measure_forgetting(const OnlineBench& bench) {
  std::vector<double> ratios, kept, newest;
  std::vector<Figure> figures;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(bench.rounds); ++seed) {
    kept.push_back(error_after(bench, seed, true));
    newest.push_back(error_after(bench, seed, false));
    ratios.push_back(kept.back() / newest.back());
    figures.push_back({fmt::format("seed {}, reservoir over newest", seed), ratios.back(), ""});
  }
  figures.push_back({"error with a reservoir, median", median(kept), ""});
  figures.push_back({"error with the newest samples, median", median(newest), ""});
  figures.push_back({"reservoir over newest, median", median(ratios), ""});
  figures.push_back({"reservoir over newest, worst", *std::ranges::max_element(ratios), ""});
  return figures;
}

}  // namespace kolo
