#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/data/dataset.h"

namespace kolo {

class NumberArray;

struct ArraySamplesOptions {
  // What inputs are divided by: 255 brings bytes to 0..1.
  double divisor = 1;
  // How many classes labels tell apart; unset: one more than the largest label.
  std::optional<std::int64_t> classes = {};
  // The arrays that an input is made of. Of several the values come one after another, in this
  // order (SampleLayout::input_parts).
  std::vector<std::string> inputs = {"inputs"};
  // The same of targets that are numbers. Empty: the array targets, or else labels.
  std::vector<std::string> targets = {};
};

// Samples of one's own, from arrays of numbers:
//
//   FOLDER/inputs.npy [N, ...]   one array of all samples, or a folder FOLDER/inputs with a file
//                                each, [...], in the bytewise order of their names
//   FOLDER/targets.npy [N, ...]  numbers to be learnt, or a folder as above whose files have the
//                                same names; or instead
//   FOLDER/labels.npy [N]        whole numbers from 0: classes
//   FILE.h5                      with the datasets inputs, and targets or labels
//
// The options may name other arrays, and several.
//
// Numbers are float32 or 64, or whole numbers of 8 to 64 bits, little-endian in .npy; samples come
// as float32. Inputs have their channels first; such of two lengths get one channel, and targets of
// a single number are [1]. HDF5 may have chunks and filters, and is read by one thread at a time.
//
// Constructor: reads labels, and the heads of all files. InputError that names the file: missing,
// not such an array, both targets and labels or neither, of other lengths or names than the first
// of the inputs, labels that are no classes, no name of an input. read(): Error for files that
// can't be read any more.
class ArraySamples final : public Dataset {
 public:
  explicit ArraySamples(const std::filesystem::path& path, const ArraySamplesOptions& options = {});

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const override;

 private:
  void take_labels(const NumberArray& labels, std::optional<std::int64_t> classes);

  float divisor_;
  // Each makes up a part of a sample; targets: none where there are labels.
  std::vector<std::shared_ptr<const NumberArray>> inputs_, targets_;
  std::vector<std::int64_t> labels_;
  SampleLayout layout_;
};

// Whether a path looks like samples of arrays: a folder with inputs of .npy.
[[nodiscard]] bool holds_array_samples(const std::filesystem::path& path);

}  // namespace kolo
