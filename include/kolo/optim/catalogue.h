#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/settings/choice.h"

// Optimizers by name, with their keys in a configuration.
namespace kolo {

// What pulls the parameters towards zero, and which; see flat_optimizer.h.
struct WeightDecay {
  double weight = 0;
  bool is_decoupled = false;
  bool excludes_vectors = false;
};

struct OptimizerEntry : ChoiceEntry {
  double usual_rate = .001;      // Keras's
  bool decouples_decay = false;  // whether it is asked to or not
  bool has_own_decay = false;    // a kind of its own, neither in the gradient nor decoupled
  std::function<std::unique_ptr<FlatOptimizer>(const OwnSettings&, const WeightDecay&)> make = {};
  // What is worth saying when a training starts, or nothing.
  std::function<std::string(const OwnSettings&)> remark = [](const OwnSettings&) {
    return std::string();
  };
};

// Those of src/optim/catalogue.
[[nodiscard]] const std::vector<OptimizerEntry>& built_in_optimizers();

// Error where there is none of that name.
[[nodiscard]] const OptimizerEntry& optimizer_entry(std::string_view name);

}  // namespace kolo
