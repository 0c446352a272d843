#pragma once

#include "kolo/comm/communicator.h"
#include "kolo/train/observe/bench_records.h"

namespace kolo {

// How the ranks of a measurement lie: on the fullest node, and this node's processors as far as the
// process may use them.
[[nodiscard]] RankLayout rank_layout(const Communicator& communicator);

}  // namespace kolo
