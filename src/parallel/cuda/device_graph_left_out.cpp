#include <utility>

#include "parallel/device_graph.h"

namespace kolo::parallel {

std::unique_ptr<DeviceGraph> record_graph(const torch::Device& /*device*/,
                                          std::function<void()> work) {
  return make_repetition(std::move(work));
}

}  // namespace kolo::parallel
