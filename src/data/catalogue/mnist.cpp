#include "kolo/data/mnist.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "data/catalogue/dataset_settings.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr std::int64_t mnist_classes = 10;

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;  // a file that can't be inspected is as good as missing
  for (const auto& candidate : {folder / name, folder / (name + ".gz")}) {
    if (std::filesystem::exists(candidate, ignored)) return candidate;
  }
  throw InputError(fmt::format(
      "data: no file {} (or {}.gz) in {}{}; kolo data fetch mnist (or fashion-mnist) -o DIR gets "
      "these files, and Debian's package has Fashion-MNIST's (apt install dataset-fashion-mnist) "
      "in "
      "{}",
      name, name, folder.string(),
      std::filesystem::exists(folder, ignored) ? "" : ", a folder that does not exist",
      fashion_mnist_folder));
}

std::array<float, 256> normalised_values(const Normalisation& normalisation) {
  if (!std::isfinite(normalisation.mean) || !std::isfinite(normalisation.deviation) ||
      normalisation.deviation <= 0) {
    throw InputError(fmt::format(
        "data: normalization with mean {} and deviation {}: expected finite numbers and a "
        "deviation above 0",
        normalisation.mean, normalisation.deviation));
  }
  std::array<float, 256> values{};
  for (std::size_t pixel = 0; pixel < values.size(); ++pixel) {
    values[pixel] =
        (static_cast<float>(pixel) / 255.0F - normalisation.mean) / normalisation.deviation;
  }
  return values;
}

void check_labels(std::span<const std::uint8_t> labels, const std::filesystem::path& path) {
  const auto wrong = std::find_if(labels.begin(), labels.end(),
                                  [](std::uint8_t label) { return label >= mnist_classes; });
  if (wrong == labels.end()) return;
  throw InputError(fmt::format("data: label {} in {} is {}, expected 0 to {}",
                               wrong - labels.begin(), path.string(), *wrong, mnist_classes - 1));
}

}  // namespace

MnistDataset::MnistDataset(const std::filesystem::path& folder, Split split,
                           Normalisation normalisation)
    : normalised_(normalised_values(normalisation)) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const auto image_file = find_file(folder, prefix + "-images-idx3-ubyte");
  const auto label_file = find_file(folder, prefix + "-labels-idx1-ubyte");
  images_ = read_idx(image_file, IdxExpectation{IdxType::uint8, 3, "images"});
  labels_ = read_idx(label_file, IdxExpectation{IdxType::uint8, 1, "labels"});
  const auto& dimensions = images_.header.dimensions;
  if (dimensions[0] != labels_.header.dimensions[0]) {
    throw InputError(fmt::format(
        "data: {} has {} images but {} has {} labels: expected as many labels as images",
        image_file.string(), dimensions[0], label_file.string(), labels_.header.dimensions[0]));
  }
  check_labels(labels_.elements<std::uint8_t>(), label_file);
  layout_ = {{1, dimensions[1], dimensions[2]}, mnist_classes, {}};
  pixels_ = static_cast<std::size_t>(layout_.input_size());
}

void MnistDataset::read(std::int64_t index, std::int64_t /*epoch*/,
                        const SamplePlace& place) const {
  check_read(index, place, pixels_, 1);
  const auto sample = static_cast<std::size_t>(index);
  const auto pixels = images_.elements<std::uint8_t>().subspan(sample * pixels_, pixels_);
  for (std::size_t i = 0; i < pixels_; ++i) place.input[i] = normalised_[pixels[i]];
  place.label[0] = labels_.elements<std::uint8_t>()[sample];
}

}  // namespace kolo

namespace kolo::datasets {

// The four files in a folder. Unless one asks for it, images are not varied: digits have no mirror
// images.
struct MnistFiles {
  std::string path;
  ImageSettings images;

  void complete() {
    if (!images.horizontal_flip) images.horizontal_flip = false;
    images.complete(0, 0, NamedPreprocessing::none);
  }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const;
  [[nodiscard]] SampleLayout layout(const DatasetRequest&) const { return {{1, 28, 28}, 10, {}}; }
};

Datasets MnistFiles::make(const DatasetRequest& request) const {
  const auto read = [&](Split split) {
    return at_key(request, "path", [&] { return std::make_shared<MnistDataset>(path, split); });
  };
  auto augmentation = images.augmentation(request);
  augmentation.random_crop = images.crop(request);
  auto training = first_of_training(request, read(Split::train));
  if (!augmentation.is_identity()) {
    training = std::make_shared<AugmentedDataset>(training, augmentation, Preprocessing::none(),
                                                  request.seed);
  }
  return {training, first_of_validation(request, read(Split::validation))};
}

template <typename Field>
void visit(Field& field, MnistFiles& mnist) {
  field("path", mnist.path, PathText{});
  visit_variations(field, mnist.images);
}

struct Mnist : MnistFiles {
  void check(const RefuseKey& refuse) const {
    if (path.empty()) {
      refuse("path",
             "data mnist needs the folder that holds MNIST's four IDX files; kolo data fetch mnist "
             "-o data/mnist gets them");
    }
    images.check(refuse);
  }
};

DatasetEntry mnist() {
  return entry_of<Mnist>("mnist", "handwritten digits");
}

struct FashionMnist : MnistFiles {
  void check(const RefuseKey& refuse) const { images.check(refuse); }
  void complete() {
    if (path.empty()) path = fashion_mnist_folder;
    MnistFiles::complete();
  }
};

DatasetEntry fashion_mnist() {
  return entry_of<FashionMnist>("fashion_mnist", "clothes, in MNIST's format; a Debian package");
}

}  // namespace kolo::datasets
