#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kolo/run/run.h"

// Prediction with a trained network, as by `kolo predict`.
namespace kolo {

struct PredictionRequest {
  std::filesystem::path run;           // a run's folder, or one of its checkpoints
  std::string checkpoint = "best";     // of a run, as in EvaluationRequest
  std::vector<std::string> overrides;  // of the run's settings
  std::filesystem::path input;         // simulation box with dark matter (kolo/data/box_files.h)
  std::filesystem::path output;        // of the gas: HDF5, or .npy
  std::optional<std::int64_t> tile;    // cells per edge predicted at a time; none: by memory
  bool replaces = false;               // an existing output, which otherwise is an InputError
};

struct RunPrediction {
  std::string model, checkpoint, input, output;
  std::int64_t step = 0, epoch = 0;  // of the checkpoint
  int ranks = 1;
  std::int64_t size = 0;                       // cells per edge of the box
  std::int64_t tiles = 0;                      // of all ranks
  std::array<std::int64_t, 3> largest_tile{};  // cells, with margins
  std::int64_t bytes = 0;                      // of the fields that were written
  double seconds = 0;                          // from the first tile to the whole file
  std::uint64_t peak_memory = 0;  // bytes of the rank that had most: of its GPU, or of the host
};

// Predicts the gas of a whole box, [5, N, N, N]: to rounding what the network makes of the box at
// once, in evaluation mode, with zeros beyond its borders (not periodic). A box that memory can't
// hold is computed in tiles with the margins that their outputs depend on (kolo/layout/tiles.h); a
// network without field_layers() takes the box whole. The ranks share the tiles, and each writes
// its own. The file appears when it is complete.
//
// Called on each rank as run() is, with its statuses and errors. `report` is called on rank 0.
// `parts`: those of the run.
//
// InputError: the model makes no fields, or of other channels; the box can't be read, or its edge
// is no multiple of what the network's layers need; the output exists, can't be written, or is the
// input.
[[nodiscard]] int predict_run(const PredictionRequest& request,
                              const std::function<void(const RunPrediction&)>& report,
                              const RunParts& parts = {}, const RunOptions& options = {});

// Throws the InputErrors of predict_run() before ranks are started. Returns the run's configuration
// with the overrides.
RunConfig check_prediction(const PredictionRequest& request, const RunParts& parts = {});

}  // namespace kolo
