#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kolo/data/dataset.h"

namespace kolo {

// Where Debian's package dataset-fashion-mnist puts its files.
inline constexpr std::string_view fashion_mnist_folder = "/usr/share/datasets/fashion-mnist";

// A pixel p of 0..255 becomes (p / 255 - mean) / deviation. The defaults are MNIST's own mean and
// deviation.
struct Normalisation {
  float mean = .1307F;
  float deviation = .3081F;
};

// Tells whether a file's name is that of an IDX file: ...-ubyte, with or without ".gz".
[[nodiscard]] bool is_idx_name(std::string_view name);

// Finds the folder with IDX files: `root` itself, or the place below it where torchvision puts
// them, raw/ of MNIST/ or FashionMNIST/ (`first` before others), or raw/; `root` when it has none.
[[nodiscard]] std::filesystem::path mnist_folder(const std::filesystem::path& root,
                                                 std::string_view first = "MNIST");

// MNIST, Fashion-MNIST and every other data set in their four files: train-images-idx3-ubyte,
// train-labels-idx1-ubyte (training), t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (validation),
// each plain or gzip, with or without ".gz" after its name; also train-images.idx3-ubyte and so on.
//
// Input {1, rows, columns}, 10 classes. The pixels stay in memory as bytes (47 MB for 60 000
// images), which several ranks can share (load()). Constructor: InputError for a missing file
// (names the package that has it), anything read_idx rejects, an image count that differs from the
// label count, a label over 9, a deviation that is not positive.
class MnistDataset final : public Dataset {
 public:
  // loads_later: the pixels are read by load(), not at once, and a gzip file's damage is seen
  // there.
  MnistDataset(const std::filesystem::path& folder, Split split, Normalisation normalisation = {},
               bool loads_later = false);

  // With loads_later: what reads the pixels, before which no sample may be read.
  [[nodiscard]] const std::optional<MemoryLoad>& load() const { return load_; }
  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(labels_.size());
  }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const override;

 private:
  struct Pixels;  // of all images, known to the load

  SampleLayout layout_;
  std::shared_ptr<Pixels> images_;
  std::optional<MemoryLoad> load_;
  std::vector<std::uint8_t> labels_;
  std::array<float, 256> normalised_{};  // by pixel value
  std::size_t pixels_ = 0;               // of one image
};

}  // namespace kolo
