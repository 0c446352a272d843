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

// A trained network measured, as `kolo eval` does it.
namespace kolo {

struct EvaluationRequest {
  std::filesystem::path path;  // a run's folder, or one of its checkpoints
  // Of a run: "newest", a step, or "best", for which the newest stands in runs without validation.
  std::string checkpoint = "best";
  std::vector<std::string> overrides;  // of the run's settings: "data.path=FOLDER"
  std::string split = "validation";    // or "training"; read as in validation either way
  std::int64_t samples = 0;            // of which the network's outputs are kept, evenly spread
};

// Numbers of a sample, row by row.
struct SampleNumbers {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

// One sample with the network's output.
struct SampleOutput {
  std::int64_t index = 0;  // in the data
  SampleNumbers input;     // as the data set has it
  SampleNumbers target;    // empty where there are classes
  std::int64_t label = 0;  // where there are classes
  SampleNumbers output;    // of classes their probabilities
};

struct RunEvaluation {
  std::string model, checkpoint, split;
  std::int64_t step = 0, epoch = 0;  // of the checkpoint
  int ranks = 1;
  MetricSums sums;
  std::int64_t top = 0;  // sums.in_top are of so many largest outputs; 0: not counted
  std::optional<ConfusionMatrix> matrix;  // none for targets that are numbers
  std::vector<std::string> class_names;   // empty: classes are known by number
  // Of the inputs' and targets' channels; empty: they are known by number.
  std::vector<std::string> input_names, target_names;
  std::vector<SampleOutput> samples;  // EvaluationRequest::samples, or all where there are fewer

  // A class by its name, or by its number where it has none.
  [[nodiscard]] std::string class_name(std::int64_t label) const {
    const auto index = static_cast<std::size_t>(label);
    return index < class_names.size() ? class_names[index] : std::to_string(label);
  }
};

// Called on each rank, as run() is, and returns the same statuses, or throws where the rank is
// alone. `report` is called on rank 0. `parts`: those of the run.
[[nodiscard]] int evaluate_run(const EvaluationRequest& request,
                               const std::function<void(const RunEvaluation&)>& report,
                               const RunParts& parts = {}, const RunOptions& options = {});

// InputError for what evaluate_run() would refuse: for who starts the ranks. Returns the run's
// configuration with the overrides.
RunConfig check_evaluation(const EvaluationRequest& request, const RunParts& parts = {});

}  // namespace kolo
