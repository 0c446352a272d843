#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/clock.h"
#include "kolo/comm/communicator.h"
#include "kolo/data/array_file.h"
#include "kolo/data/catalogue.h"
#include "kolo/layout/tiles.h"
#include "kolo/run/predict_run.h"
#include "kolo/train/observe/progress.h"
#include "run/rank_job.h"
#include "run/trained_run.h"

// Kinds of predictions behind `kolo predict`.
namespace c10 {
struct Device;
}

namespace kolo {

class Prediction {
 public:
  virtual ~Prediction() = default;
  // Facts on the input, which all ranks must have alike.
  [[nodiscard]] virtual std::vector<RankFact> facts() const = 0;
  // Loads the network, predicts and writes; fills in the time and the kind's part. Collective.
  virtual void predict(TrainedModel& trained, const Communicator& communicator,
                       const RunOptions& options, RunPrediction& result) = 0;
};

// Preparations, which throw InputErrors of all that users can get wrong. `is_root`: also looks at
// the output.
[[nodiscard]] std::unique_ptr<Prediction> prepare_box(const PredictionRequest& request,
                                                      const TrainedModel& trained, bool is_root);
[[nodiscard]] std::unique_ptr<Prediction> prepare_samples(const PredictionRequest& request,
                                                          const TrainedModel& trained,
                                                          PredictionInputs inputs, bool is_root);

// Box to cut in tiles.
struct TileRequest {
  std::int64_t size = 0;             // cells per edge of the box
  std::optional<AxisReach> reach;    // none: the whole box is a tile
  std::optional<std::int64_t> core;  // cells per edge, where the user has said
  double bytes_per_cell = 0;
};

// Plans the tiles of a box: of the requested core, or as large as the free memory of every rank's
// device allows, and enough for all ranks where that is faster. The same on all ranks. Error: not
// even the smallest fit. Collective.
[[nodiscard]] std::vector<Tile> plan_tiles(const Communicator& communicator,
                                           const c10::Device& device, const TileRequest& request);

// InputError unless the output has one of these endings and can be written. `read`: the input.
void require_output(const PredictionRequest& request, std::span<const std::string_view> endings,
                    const std::filesystem::path& read);

// Progress of rank 0's part, with the rate of all ranks, assumed to be as fast.
class PredictionBar {
 public:
  PredictionBar(const Communicator& communicator, const RunOptions& options, std::int64_t steps,
                const std::string& unit);
  // Adds a step of so many units.
  void add(std::int64_t units);
  void clear();

 private:
  double ranks_, units_ = 0;
  std::int64_t done_ = 0;
  Stopwatch watch_;
  std::optional<ProgressBar> bar_;
};

// Form of predictions: a row of values for each sample.
struct PredictionForm {
  std::int64_t samples = 0;
  std::function<std::string(std::int64_t)> file = {};  // of a sample; empty: it has none
  bool has_classes = false;                            // values are probabilities
  std::vector<FloatArray> arrays = {};                 // that a row consists of, one after another
  std::int64_t values = 0;                             // of a row
  std::vector<std::string> columns = {};  // names of the values; none: too many for a table
};

// Writer of predictions in a file that appears when it is whole.
class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  // Adds the next rows.
  virtual void add(std::span<const float> values) = 0;
  virtual void commit() = 0;
};

// Writer by the file's ending: .csv, .json, .npy, otherwise HDF5.
[[nodiscard]] std::unique_ptr<PredictionWriter> make_prediction_writer(
    const std::filesystem::path& file, const PredictionForm& form);

}  // namespace kolo
