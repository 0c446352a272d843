#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kolo/run/run.h"

// A trained network applied to data, as `kolo predict` does it.
namespace kolo {

struct PredictionRequest {
  std::filesystem::path run;           // a run's folder, or one of its checkpoints
  std::string checkpoint = "best";     // of a run, as in EvaluationRequest
  std::vector<std::string> overrides;  // of the run's settings
  // A simulation box (kolo/data/box_files.h), of which the dark matter has to be there.
  std::filesystem::path input;
  std::filesystem::path output;      // the gas: HDF5, or .npy
  std::optional<std::int64_t> tile;  // cells per edge that are predicted at a time; none: as memory
                                     // allows
  bool replaces = false;             // an output that is there; otherwise it is an InputError
};

struct RunPrediction {
  std::string model, checkpoint, input, output;
  std::int64_t step = 0, epoch = 0;  // of the checkpoint
  int ranks = 1;
  std::int64_t size = 0;                       // cells per edge of the box
  std::int64_t tiles = 0;                      // of all ranks
  std::array<std::int64_t, 3> largest_tile{};  // that is read at a time, with its margins
  std::int64_t bytes = 0;                      // of the fields that were written
  double seconds = 0;                          // from the first tile to the whole file
  std::uint64_t peak_memory = 0;  // bytes of the rank that had most: of its GPU, or of the host
};

// Predicts the gas of a whole box, [5, N, N, N], to rounding what the network, in evaluation mode,
// makes of the box at once, with zeros beyond its borders (periodic ones are not known of). What is
// not in memory at once is computed in tiles, with as much around each as its outputs depend on
// (kolo/layout/tiles.h): a network that doesn't tell its field_layers() takes the box whole. The
// ranks share the tiles, and each writes what it makes. The file appears when all is there.
//
// Called on each rank, as run() is, and returns the same statuses, or throws where the rank is
// alone. `report` is called on rank 0. `parts`: those of the run.
//
// InputError: the model makes no fields, or of other channels; the box can't be read, or its edge
// is no multiple of what the network's layers need; the output is there already, can't be written,
// or is what is read.
[[nodiscard]] int predict_run(const PredictionRequest& request,
                              const std::function<void(const RunPrediction&)>& report,
                              const RunParts& parts = {}, const RunOptions& options = {});

// InputError for what predict_run() would refuse: for who starts the ranks. Returns the run's
// configuration with the overrides.
RunConfig check_prediction(const PredictionRequest& request, const RunParts& parts = {});

}  // namespace kolo
