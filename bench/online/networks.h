#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kolo/nn/network.h"

namespace kolo {

// A network whose steps are timed, of plain LibTorch modules, which all peers can have, and the
// shape of its samples.
struct TimedNetwork {
  std::string name;
  std::vector<std::int64_t> sample;  // input and target, without the batch
  std::shared_ptr<TensorsNetwork> (*make)();
};

// "linear" (1024 to 1024), "convolution" (3x3, one channel, periodic: 2 tensors), "convolutions"
// (three of them over 16 channels), "mlp" (7 layers, between them 6 more vectors: 20 tensors).
// InputError for another name.
[[nodiscard]] TimedNetwork timed_network(const std::string& name);
[[nodiscard]] std::vector<std::string> timed_networks();

}  // namespace kolo
