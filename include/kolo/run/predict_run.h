#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kolo/run/run.h"

// Prediction with a trained network, as by `kolo predict`.
namespace kolo {

struct PredictionRequest {
  std::filesystem::path run;           // a run's folder, or one of its checkpoints
  std::string checkpoint = "best";     // of a run, as in EvaluationRequest
  std::vector<std::string> overrides;  // of the run's settings
  // Input of the kind that the run was trained on: an image or a folder of them, arrays
  // (kolo/data/array_samples.h), or a simulation box with dark matter (kolo/data/box_files.h).
  std::filesystem::path input;
  // File by its ending, .csv, .json, .npy, .h5 or .hdf5; a box's gas: .npy, .h5 or .hdf5. Empty:
  // the first samples are predicted, and only reported.
  std::filesystem::path output;
  std::optional<std::int64_t> tile;  // cells per edge of a box predicted at a time; none: by memory
  bool replaces = false;             // an existing output, which otherwise is an InputError
};

struct PredictedBox {
  std::int64_t size = 0;                       // cells per edge
  std::int64_t tiles = 0;                      // of all ranks
  std::array<std::int64_t, 3> largest_tile{};  // cells, with margins
  std::int64_t bytes = 0;                      // of the fields that were written
};

struct PredictedSample {
  std::string name;           // of its file, below a folder; else its number
  std::vector<float> values;  // probabilities of the classes, or the numbers
};

struct PredictedSamples {
  bool has_classes = false, has_files = false;
  std::vector<std::string> columns;    // names of the values
  std::int64_t samples = 0;            // of the input
  std::vector<PredictedSample> first;  // some 40 at most
  std::vector<std::string> warnings;   // on the input
};

struct RunPrediction {
  std::string model, checkpoint, input, output;
  std::int64_t step = 0, epoch = 0;  // of the checkpoint
  int ranks = 1;
  std::variant<PredictedSamples, PredictedBox> what;
  double seconds = 0;             // from the first tile or batch to the whole file
  std::uint64_t peak_memory = 0;  // bytes of the rank that had most: of its GPU, or of the host
};

// Predicts in evaluation mode. The run's own data is not read. The output appears when it is whole.
//
// Images are brought to the network's pixels as those of the run's validation, and get a
// probability for each class. Arrays need the inputs of the run's configuration, no targets, and
// get probabilities or numbers: .npy [N, ...], or in HDF5 under the names of the targets. The ranks
// take batches in turn, and rank 0 writes them: memory for a batch of each rank.
//
// A box gets its gas, [5, N, N, N]: to rounding what the network makes of the whole box at once,
// with zeros beyond its borders (not periodic). A box that memory can't hold is computed in tiles
// with the margins that their outputs depend on (kolo/layout/tiles.h); a network without
// field_layers() takes the box whole. The ranks share the tiles, and each writes its own.
//
// Called on each rank as run() is, with its statuses and errors. `report` is called on rank 0.
// `components`: those of the run; data sets of a program's own are predicted from arrays.
//
// InputError: the input can't be read, or isn't what the network takes; the output has the ending
// of another kind, exists, can't be written, or is the input.
[[nodiscard]] int predict_run(const PredictionRequest& request,
                              const std::function<void(const RunPrediction&)>& report,
                              const RunComponents& components = {}, const RunOptions& options = {});

// Throws the InputErrors of predict_run() before ranks are started. Returns the run's configuration
// with the overrides.
RunConfig check_prediction(const PredictionRequest& request, const RunComponents& components = {});

}  // namespace kolo
