#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/train/observe/study.h"
#include "predict_study.h"

// Predictions for a study of `kolo scale`.
namespace kolo {

struct SimulationRequest {
  std::filesystem::path study;             // its folder
  std::vector<int> ranks;                  // to predict, beside those that were run
  std::string network;                     // between nodes, by name; empty: none
  std::string algorithm = "hierarchical";  // of all-reduces: ring | tree | hierarchical
  int ranks_per_node = 0;                  // of the nodes to predict; 0: as many as cores here
  // Files of kolo bench --json to predict from; empty: `kolo` measures on this machine.
  std::vector<std::filesystem::path> benches;
  std::string kolo = "kolo";
};

struct Simulation {
  std::string network;                 // that predictions were made with
  std::vector<PredictedPoint> points;  // by ranks; those that were run are among them, to compare
};

// InputError: no study, ranks below 1, an unknown network or algorithm, several nodes without a
// network, a batch or samples that so many ranks can't share. Error: a bench failed. `say` is told
// of each bench, which take some seconds.
[[nodiscard]] Simulation simulate_study(const Study& study, const SimulationRequest& request,
                                        const std::function<void(const std::string&)>& say);

// A table for people: predictions, beside what was measured where there is both.
[[nodiscard]] std::string to_text(const Study& study, const Simulation& simulation);

// The table for programs (scripts/plot reads it): "network", and "points" with the keys of
// study.json.
[[nodiscard]] nlohmann::ordered_json to_json(const Simulation& simulation);

// Measurements of kolo bench --json, from files. InputError: one can't be read.
[[nodiscard]] BenchMeasurements read_benches(const std::vector<std::filesystem::path>& files);

}  // namespace kolo
