#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/online/online_network.h"

// A task that a network of two inputs learns at once: cells with y = 2 a - 3 b + 1.
namespace kolo::testing {

struct Cells {
  std::vector<double> a, b, y;

  Cells(std::mt19937& random, int count) {
    std::uniform_real_distribution<double> values(-1, 1);
    for (int i = 0; i < count; ++i) {
      a.push_back(values(random));
      b.push_back(values(random));
      y.push_back(2 * a.back() - 3 * b.back() + 1);
    }
  }
  [[nodiscard]] Array array(std::vector<double>& values) const {
    return Array(values.data(), {static_cast<std::int64_t>(values.size())});
  }
  [[nodiscard]] std::vector<Array> inputs() { return {array(a), array(b)}; }
  [[nodiscard]] std::vector<Array> targets() { return {array(y)}; }
};

inline OnlineConfig linear_config(const std::vector<std::string>& overrides = {}) {
  return load_online_config(
      "model: {name: mlp, hidden: [], inputs: [2], outputs: [1]}\n"
      "training: {samples: cells, batch_size: 16, loss: mse}\n"
      "optimizer: {name: adam, lr: 0.05}\n"
      "reservoir: {capacity: 64 KiB}\n",
      overrides);
}

// Numbers that differ by rank.
inline std::mt19937 random_of(const Communicator& ranks) {
  return std::mt19937(static_cast<unsigned>(100 + ranks.rank()));
}

// The largest error of the network on cells that it has not seen.
inline double error_of(const OnlineNetwork& network) {
  std::mt19937 random(99);
  Cells cells(random, 50);
  std::vector<double> found(cells.y.size());
  const std::vector<Array> outputs = {cells.array(found)};
  network.infer(cells.inputs(), outputs);
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    largest = std::max(largest, std::abs(found[i] - cells.y[i]));
  return largest;
}

// Equal on all ranks.
inline bool is_alike(const Communicator& ranks, const OnlineNetwork& network) {
  const double mine = network.get("checksum");
  return all_reduce_value(ranks, mine, ReduceOp::min) ==
         all_reduce_value(ranks, mine, ReduceOp::max);
}

}  // namespace kolo::testing
