#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/data/dataset.h"

namespace kolo {

// Folder of Debian's package dataset-fashion-mnist.
inline constexpr std::string_view fashion_mnist_folder = "/usr/share/datasets/fashion-mnist";

inline constexpr std::array<std::string_view, 10> fashion_mnist_names = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

// Files in a folder that are named as IDX files are, ...-ubyte with or without ".gz"; sorted.
[[nodiscard]] std::vector<std::filesystem::path> idx_files_in(const std::filesystem::path& folder);

// Finds the folder with IDX files: `root` itself, or torchvision's place below it, raw/ of MNIST/
// or FashionMNIST/ (`first` before others), or raw/; `root` if none has any.
[[nodiscard]] std::filesystem::path mnist_folder(const std::filesystem::path& root,
                                                 std::string_view first = "MNIST");

// MNIST, Fashion-MNIST and every other data set in their four files: train-images-idx3-ubyte,
// train-labels-idx1-ubyte (training), t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (validation),
// each plain or gzip, with or without ".gz" after its name; also train-images.idx3-ubyte and so on.
//
// Input {1, rows, columns}, each pixel p as (p / 255 - .1307) / .3081 (MNIST's own mean and
// deviation); 10 classes. The pixels stay in memory as bytes (47 MB for 60 000 images), which
// several ranks can share (load()). Constructor: InputError for a missing file (names the package
// that has it), files that read_idx rejects, numbers of images and labels that differ, a label
// over 9.
class MnistDataset final : public Dataset {
 public:
  // loads_later: the pixels are read by load(), which sees a gzip file's damage, not at once.
  MnistDataset(const std::filesystem::path& folder, Split split, bool loads_later = false);
  // The images of one file, without labels: all of class 0.
  explicit MnistDataset(const std::filesystem::path& image_file);

  // Reading of the pixels, to be done before samples are read; unset without loads_later.
  [[nodiscard]] const std::optional<MemoryLoad>& load() const { return load_; }
  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(labels_.size());
  }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override;

  // The bytes of an image as they stand in the file. Error for an index outside [0, size), and
  // before the images are loaded.
  [[nodiscard]] std::span<const std::byte> pixels(std::int64_t index) const;
  [[nodiscard]] std::uint8_t label(std::int64_t index) const {
    return labels_.at(static_cast<std::size_t>(index));
  }
  // Fashion-MNIST's names, which is recognised by its labels; empty for other data.
  [[nodiscard]] std::vector<std::string> class_names() const;

 private:
  struct Pixels;  // of all images, known to the load

  void open_images(const std::filesystem::path& image_file,
                   const std::vector<std::int64_t>& dimensions, bool loads_later);

  SampleLayout layout_;
  std::shared_ptr<Pixels> images_;
  std::optional<MemoryLoad> load_;
  std::vector<std::uint8_t> labels_;
  std::size_t pixels_ = 0;  // of one image
};

// IDX, the format of the MNIST files: two zero bytes, the element type (0x08 for bytes, the only
// one that is read here), the number of dimensions, each dimension as a big-endian 32-bit number,
// then the elements, row-major. Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database".

struct IdxArray {
  std::vector<std::int64_t> dimensions;  // at least one, none of them zero
  std::vector<std::uint8_t> bytes;       // row-major
};

// Rank that a file must have; another is refused before its elements are read.
struct IdxExpectation {
  std::size_t rank = 0;      // 0: any
  std::string_view content;  // for the message: "images"
};

// Reads a whole IDX file, plain or gzip (told by its content). InputError names the file, the
// offset or field, what was found and what was expected: wrong or swapped magic number, another
// type or rank, a dimension of zero, sizes that overflow, truncated or trailing data, corrupt gzip
// (bytes after its end are passed over, as by gzip itself). Never allocates more than the file can
// hold, nor unpacks more than the header promises and one byte.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& path,
                                const IdxExpectation& expected = {});

// Reads the dimensions alone, and checks them against the file's size. Elements of a gzip file are
// checked when they are read.
[[nodiscard]] std::vector<std::int64_t> read_idx_dimensions(const std::filesystem::path& path,
                                                            const IdxExpectation& expected = {});

}  // namespace kolo
