#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kolo/comm/topology.h"

namespace kolo::parallel {

// LibTorch computes with so many threads, with as many as OMP_THREAD_LIMIT allows where that is
// less, and with no fewer than that, whatever else OpenMP's variables say.
void set_compute_threads(int threads);

// `devices`: of each rank a number that is equal for the same piece of hardware; 0: it has none.

// Which rank has none where another has one; empty: all have one, or none has.
[[nodiscard]] std::string describe_missing_device(std::span<const std::int64_t> devices);
// Which two ranks of a node have the same device; empty: none do.
[[nodiscard]] std::string describe_shared_device(const Topology& topology,
                                                 std::span<const std::int64_t> devices);

}  // namespace kolo::parallel
