#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/data/dataset.h"

namespace kolo {

class ArrayFile;

struct NamedArray {
  std::string name;
  std::shared_ptr<const ArrayFile> array;  // null: there is none of that name
  // Names without .npy of files that are a row each, in natural order, and the other files of their
  // folder but hidden ones.
  std::vector<std::string> row_names = {}, left_out = {};
};

// Arrays by name: NAME.npy or the files of the folder NAME in a folder, or the datasets of an HDF5
// file.
class ArrayCollection {
 public:
  // InputError unless it is a folder or HDF5; it says what it is instead.
  explicit ArrayCollection(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool is_folder() const { return is_folder_; }
  // Names in natural order; in HDF5 also those of objects that are no arrays of numbers.
  [[nodiscard]] std::vector<std::string> names() const;
  // InputError for an object that is no array of numbers, and for both a file and a folder.
  [[nodiscard]] NamedArray find(const std::string& name) const;

 private:
  [[nodiscard]] NamedArray find_npy(const std::string& name) const;

  std::filesystem::path path_;
  bool is_folder_ = false;
};

// Names of arrays whose whole numbers are classes, where no targets are named; the first counts.
inline constexpr std::array<std::string_view, 3> label_names = {"labels", "label", "y"};

struct ArraySamplesOptions {
  // Divisor of inputs: 255 brings bytes to 0..1.
  double divisor = 1;
  // Number of classes; unset: one more than the largest label.
  std::optional<std::int64_t> classes = {};
  // Arrays that an input consists of, their values one after another (SampleLayout::input_shapes).
  std::vector<std::string> inputs = {"inputs"};
  // Arrays of targets that are numbers. Empty: the array targets, or else labels (label, y).
  std::vector<std::string> targets = {};
  // False: inputs alone, all of class 0, as those to predict from. A single input may then be a
  // .npy file of its own, under any name.
  bool has_targets = true;
};

// Samples of one's own, from arrays of numbers:
//
//   FOLDER/inputs.npy [N, ...]   one array of all samples, or a folder FOLDER/inputs with a file
//                                each, [...], in the natural order of their names (s2 before s10)
//   FOLDER/targets.npy [N, ...]  numbers to be learnt, or a folder as above whose files have the
//                                same names; or instead
//   FOLDER/labels.npy [N]        whole numbers from 0: classes; a folder likewise
//   FILE.h5                      with the datasets inputs, and targets or labels
//
// The options may name other arrays, and several.
//
// Numbers are floating-point ones of 16, 32 or 64 bits or whole ones of 8 to 64 bits, .npy
// little-endian in C's order of axes; samples come as float32. Inputs have their channels first;
// inputs of two lengths get one channel, and targets of a single number are [1]. HDF5 may have
// chunks and filters, and is read by one thread at a time.
//
// Constructor: reads labels, and the headers of all files. InputError names the file: missing, not
// such an array, both targets and labels or neither, other lengths or names than the first input's,
// labels that are no classes. read(): InputError for files that can't be read any more, and for
// numbers beyond float32's range.
class ArraySamples final : public Dataset {
 public:
  explicit ArraySamples(const std::filesystem::path& path, const ArraySamplesOptions& options = {});

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override;

  // Inputs, targets and labels.
  [[nodiscard]] std::vector<NamedArray> arrays() const;
  // Notes for the user: files that were left out, an order that may surprise.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void find_targets(const ArrayCollection& collection, const ArraySamplesOptions& options);
  void take_labels(std::optional<std::int64_t> classes);

  float divisor_;
  std::vector<NamedArray> inputs_, targets_;  // targets: none where there are labels
  NamedArray label_array_;                    // null where there are targets
  std::vector<std::int64_t> labels_;
  SampleLayout layout_;
  std::vector<std::string> warnings_;
};

}  // namespace kolo
