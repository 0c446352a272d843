#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/data/dataset.h"

// CIFAR-10's binary distribution: data_batch_1.bin to data_batch_5.bin (training), test_batch.bin
// (validation) and batches.meta.txt (the names of the classes, one a line). A batch is a row of
// records of 3073 bytes: the label, then 32 x 32 red, green and blue values, each row by row.
// Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
namespace kolo {

inline constexpr std::int64_t cifar10_side = 32;
inline constexpr std::int64_t cifar10_classes = 10;
inline constexpr std::size_t cifar10_pixel_bytes = 3 * 32 * 32;
inline constexpr std::size_t cifar10_row_bytes = 1 + cifar10_pixel_bytes;
inline constexpr std::string_view cifar10_names_file = "batches.meta.txt";

// The names of a split's files, in their order.
[[nodiscard]] std::span<const std::string_view> cifar10_batch_files(Split split);

// Input {3, 32, 32}, each value x / 255, 10 classes. The images stay in memory as bytes (154 MB for
// the training split), which several ranks can share (load()).
//
// Constructor: `folder` holds the files or a folder cifar-10-batches-bin that does. InputError with
// the file and the offset or field, for a missing batch, sizes that are not whole records, empty
// batches, labels above 9, CIFAR-100, the Python (pickled) version, damaged class names.
class Cifar10Dataset final : public Dataset {
 public:
  // loads_later: the images are read by load(), not at once, and labels are checked there.
  Cifar10Dataset(const std::filesystem::path& folder, Split split, bool loads_later = false);

  // Reading of the images, to be done before samples are read; unset without loads_later.
  [[nodiscard]] const std::optional<MemoryLoad>& load() const { return load_; }
  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override;
  [[nodiscard]] std::optional<float> byte_divisor() const override;
  void read_bytes(std::int64_t index, std::span<std::uint8_t> input,
                  std::span<std::int64_t> label) const override;

  // The 3072 bytes of an image as they stand in the file: red, green, blue planes. Error for an
  // index outside [0, size).
  [[nodiscard]] std::span<const std::uint8_t> pixels(std::int64_t index) const {
    return record(index).subspan(1);
  }
  [[nodiscard]] std::int64_t label(std::int64_t index) const { return record(index)[0]; }
  // The ten names of batches.meta.txt; without this file CIFAR-10's own.
  [[nodiscard]] const std::vector<std::string>& class_names() const { return class_names_; }

 private:
  struct Rows;
  [[nodiscard]] std::span<const std::uint8_t> record(std::int64_t index) const;

  SampleLayout layout_;
  std::shared_ptr<Rows> rows_;
  std::optional<MemoryLoad> load_;
  std::vector<std::string> class_names_;
};

}  // namespace kolo
