#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kolo/train/observe/sweep.h"

namespace kolo {

// Trials of a sweep that differ in nothing but their seed, with their best values.
struct TrialGroup {
  std::vector<std::size_t> trials;  // places in the sweep
  double mean = not_measured, deviation = 0;
};

// In the order of their first trials; without a swept seed one for each trial.
[[nodiscard]] std::vector<TrialGroup> groups_of_trials(const Sweep& sweep);

[[nodiscard]] bool is_seed(const std::string& setting);

// The swept keys in words: "learning rate" for optimizer.lr, "optimizer" for optimizer.name. Whole
// keys where two would be called alike.
[[nodiscard]] std::vector<std::string> names_in_words(const std::vector<std::string>& settings);

// "learning rate 0.001, batch size 32"
[[nodiscard]] std::string in_words(const Trial& trial);

}  // namespace kolo
