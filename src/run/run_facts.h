#pragma once

#include <vector>

#include "kolo/config/factories.h"
#include "run/rank_job.h"

namespace kolo {

// What the ranks of a run must have alike: the program, each setting of the configuration but for
// the places that data are read from, which may differ between nodes, and what was found there: how
// many samples, of what shape, of which classes.
[[nodiscard]] std::vector<RankFact> facts_of(const RunConfig& config, const Datasets& datasets);

}  // namespace kolo
