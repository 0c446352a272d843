#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/data/array_file.h"

namespace kolo {

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
