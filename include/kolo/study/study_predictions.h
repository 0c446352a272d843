#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kolo/observe/study.h"
#include "kolo/study/study_plan.h"

namespace kolo {

struct SimulationOptions {
  std::vector<int> ranks;                  // beyond the machine
  std::string network;                     // between nodes, by name; empty: none
  std::string algorithm = "hierarchical";  // of all-reduces: ring | tree | hierarchical
  int ranks_per_node = 0;  // of the nodes to predict; 0: as many as this machine has cores for
};

// InputError: ranks below 1, an unknown network or algorithm, or several nodes without one.
void check_simulation(const SimulationOptions& options, int cores);

// Measures steps and collectives on this machine with `kolo bench`, and adds to the study a
// predicted point for each number of ranks that was run (to compare with) and for each of
// `options.ranks`. They are of the study's first learning-rate scaling and warm-up, which don't
// matter to speed. Takes as long as a few benches; `say` is told of each. Error: a bench failed,
// with what it said.
void add_predictions(Study& study, const StudyRequest& request, const SimulationOptions& options,
                     std::int64_t samples_per_epoch,
                     const std::function<void(const std::string&)>& say);

}  // namespace kolo
