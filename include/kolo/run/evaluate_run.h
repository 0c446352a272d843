#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kolo/nn/metrics.h"
#include "kolo/run/run.h"
#include "kolo/train/train_state.h"

// Evaluation of a trained network, as by `kolo eval`.
namespace kolo {

struct EvaluationRequest {
  std::filesystem::path path;  // a run's folder, or one of its checkpoints
  // Checkpoint of a run: "newest", a step, or "best", which is the newest without validation.
  std::string checkpoint = "best";
  std::vector<std::string> overrides;  // of the run's settings: "data.path=FOLDER"
  std::string split = "validation";    // or "training"; never varied
  std::int64_t samples = 0;            // whose outputs are kept, evenly spread over the split
};

// Numbers of a sample, in rows.
struct SampleNumbers {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

struct SampleOutput {
  std::int64_t index = 0;  // in the data set
  SampleNumbers input;
  SampleNumbers target;    // empty where there are classes
  std::int64_t label = 0;  // where there are classes
  SampleNumbers output;    // of the network; probabilities where there are classes
};

// Errors in a target that is told apart: an array, or one of up to 16 numbers or channels of it.
struct TargetErrors {
  std::string name;
  std::int64_t numbers = 0;  // of it in a sample, on this rank
  ErrorSums sums;
};

struct RunEvaluation {
  std::string model, checkpoint, split;
  std::int64_t step = 0, epoch = 0;  // of the checkpoint
  int ranks = 1;
  MetricSums sums;
  std::int64_t top = 0;  // largest outputs that sums.in_top looks at; 0: not counted
  std::optional<ConfusionMatrix> matrix;  // none for targets that are numbers
  // None for classes, and where outputs have other shapes than their targets.
  std::vector<TargetErrors> errors;
  std::vector<std::string> class_names;                // empty: classes have numbers only
  std::vector<std::string> input_names, target_names;  // of channels; empty: numbers only
  std::vector<SampleOutput> samples;

  // Name of a class, or its number where it has none.
  [[nodiscard]] std::string class_name(std::int64_t label) const {
    const auto index = static_cast<std::size_t>(label);
    return index < class_names.size() ? class_names[index] : std::to_string(label);
  }
  [[nodiscard]] ErrorSums errors_of_all() const {
    ErrorSums all;
    for (const auto& target : errors) all.add(target.sums);
    return all;
  }
};

// Called on each rank as run() is, with its statuses and errors. `report` is called on rank 0.
// `components`: those of the run.
[[nodiscard]] int evaluate_run(const EvaluationRequest& request,
                               const std::function<void(const RunEvaluation&)>& report,
                               const RunComponents& components = {},
                               const RunOptions& options = {});

// Throws the InputErrors of evaluate_run() before ranks are started. Returns the run's
// configuration with the overrides.
RunConfig check_evaluation(const EvaluationRequest& request, const RunComponents& components = {});

}  // namespace kolo
