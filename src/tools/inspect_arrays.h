#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace kolo {

using InspectionJson = nlohmann::ordered_json;

// Least, most and mean of numbers, as they come.
struct Range {
  void add(double value);

  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0;                          // of the finite ones
  std::int64_t count = 0, not_finite = 0;  // count: finite ones
  std::int64_t beyond_float32 = 0;         // of these, infinite as float32
};
using Ranges = std::vector<std::pair<std::string, Range>>;  // by channel

// Adds numbers of which `run` in a row belong to each channel in turn.
template <typename Number>
void add_numbers(Ranges& ranges, std::span<const Number> numbers, std::size_t run = 1) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ranges[i / run % ranges.size()].second.add(static_cast<double>(numbers[i]));
}

// An inspection without arrays, facts and advice.
[[nodiscard]] InspectionJson new_inspection(const std::filesystem::path& path,
                                            const std::string& format, std::uint64_t bytes);
[[nodiscard]] InspectionJson array_json(const std::string& name, const std::string& type,
                                        const std::vector<std::int64_t>& shape,
                                        const Ranges& ranges = {});

// One function for each kind of file or folder.
[[nodiscard]] InspectionJson inspect_box(const std::filesystem::path& path, bool reads_numbers);
[[nodiscard]] InspectionJson inspect_npy(const std::filesystem::path& path, bool reads_numbers);
// Arrays with the names that the data set `arrays` takes: inputs, and targets or labels.
[[nodiscard]] InspectionJson inspect_array_samples(const std::filesystem::path& path,
                                                   bool reads_numbers);
// All arrays of a folder of .npy files, or of an HDF5 file; those that can't be read are advice.
[[nodiscard]] InspectionJson inspect_arrays(const std::filesystem::path& path, bool reads_numbers);

}  // namespace kolo
