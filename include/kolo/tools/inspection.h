#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

// Contents of a file or folder of data, as `kolo data inspect` shows them.
namespace kolo {

// Least, most and mean of numbers, as they come.
class Range {
 public:
  void add(std::span<const float> values);
  void add(double value);

  [[nodiscard]] double least() const { return least_; }
  [[nodiscard]] double most() const { return most_; }
  [[nodiscard]] double mean() const { return sum_ / static_cast<double>(count_); }
  [[nodiscard]] std::int64_t count() const { return count_; }  // finite ones
  [[nodiscard]] std::int64_t not_finite() const { return not_finite_; }
  // Finite ones that become infinite as float32, among those that are counted.
  [[nodiscard]] std::int64_t beyond_float32() const { return beyond_float32_; }

 private:
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0;
  std::int64_t count_ = 0, not_finite_ = 0, beyond_float32_ = 0;
};

struct ArrayInspection {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> chunk;  // empty: contiguous
  std::vector<std::string> filters;
  std::vector<std::pair<std::string, Range>> ranges;  // by channel; empty when they weren't read
};

struct Inspection {
  std::string path, format;
  std::uint64_t bytes = 0;  // in files
  std::vector<ArrayInspection> arrays;
  std::vector<std::pair<std::string, nlohmann::json>> facts;  // attributes, classes, ...
  std::vector<std::string> advice;
};

// Tells the format by the content. `reads_numbers`: also their ranges, which takes reading all.
// InputError for what is no file of any format that is read, or a bad one.
[[nodiscard]] Inspection inspect(const std::filesystem::path& path, bool reads_numbers);

[[nodiscard]] nlohmann::json to_json(const Inspection& inspection);
// Prints it for people.
void print(const Inspection& inspection, std::ostream& out);

}  // namespace kolo
