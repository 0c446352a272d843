#include "kolo/data/mnist.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "data/catalogue/dataset_settings.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file_kind.h"

namespace kolo {

namespace {

constexpr std::int64_t mnist_classes = 10;
constexpr IdxExpectation images_expected{3, "images"};

// Finds the images or labels of a split, by either spelling of the name.
std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& prefix,
                                const std::string& kind) {
  std::error_code ignored;  // a file that can't be inspected is as good as missing
  const auto name = prefix + '-' + kind;
  for (const auto& spelling : {name, prefix + '.' + kind}) {
    for (const auto& candidate : {spelling, spelling + ".gz"}) {
      const auto path = folder / candidate;
      if (std::filesystem::exists(path, ignored)) return path;
    }
  }
  throw InputError(fmt::format(
      "data: no file {} (or {}.gz) in {}{}; kolo data fetch mnist (or fashion-mnist) -o DIR gets "
      "these files, and Debian's package has Fashion-MNIST's (apt install dataset-fashion-mnist) "
      "in {}",
      name, name, folder.string(),
      std::filesystem::exists(folder, ignored) ? "" : ": " + missing_path_text(folder),
      fashion_mnist_folder));
}

constexpr float pixel_mean = .1307F, pixel_deviation = .3081F;  // of MNIST's own, as 0..1

void check_labels(std::span<const std::uint8_t> labels, const std::filesystem::path& path) {
  const auto wrong = std::find_if(labels.begin(), labels.end(),
                                  [](std::uint8_t label) { return label >= mnist_classes; });
  if (wrong == labels.end()) return;
  throw InputError(fmt::format("data: label {} in {} is {}, expected 0 to {}",
                               wrong - labels.begin(), path.string(), *wrong, mnist_classes - 1));
}

bool is_idx_name(std::string_view name) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return name.ends_with("-ubyte");
}

}  // namespace

std::vector<std::filesystem::path> idx_files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;  // a folder that can't be looked into has none
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (is_idx_name(entry->path().filename().native())) files.push_back(entry->path());
  std::ranges::sort(files);
  return files;
}

std::filesystem::path mnist_folder(const std::filesystem::path& root, std::string_view first) {
  if (!idx_files_in(root).empty()) return root;
  for (const auto& below :
       {std::filesystem::path(first) / "raw", std::filesystem::path("raw"),
        std::filesystem::path("MNIST/raw"), std::filesystem::path("FashionMNIST/raw")})
    if (!idx_files_in(root / below).empty()) return root / below;
  return root;
}

// Pixels in the memory of the load.
struct MnistDataset::Pixels {
  std::shared_ptr<const std::byte> memory;
};

MnistDataset::MnistDataset(const std::filesystem::path& folder, Split split, bool loads_later)
    : images_(std::make_shared<Pixels>()) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const auto image_file = find_file(folder, prefix + "-images", "idx3-ubyte");
  const auto label_file = find_file(folder, prefix + "-labels", "idx1-ubyte");
  const auto dimensions = read_idx_dimensions(image_file, images_expected);
  auto labels = read_idx(label_file, IdxExpectation{1, "labels"});
  if (dimensions[0] != labels.dimensions[0]) {
    throw InputError(fmt::format(
        "data: {} has {} images but {} has {} labels: expected as many labels as images",
        image_file.string(), dimensions[0], label_file.string(), labels.dimensions[0]));
  }
  check_labels(labels.bytes, label_file);
  labels_ = std::move(labels.bytes);
  open_images(image_file, dimensions, loads_later);
}

MnistDataset::MnistDataset(const std::filesystem::path& image_file)
    : images_(std::make_shared<Pixels>()) {
  const auto dimensions = read_idx_dimensions(image_file, images_expected);
  labels_.resize(narrow<std::size_t>(dimensions[0]));
  open_images(image_file, dimensions, false);
}

void MnistDataset::open_images(const std::filesystem::path& image_file,
                               const std::vector<std::int64_t>& dimensions, bool loads_later) {
  layout_ = {{1, dimensions[1], dimensions[2]}, mnist_classes, {}};
  pixels_ = static_cast<std::size_t>(layout_.input_size());
  const auto bytes = checked_multiply(labels_.size(), pixels_);
  MemoryLoad load{bytes, [=, images = images_](const auto& memory, int part, int /*parts*/) {
                    images->memory = memory;
                    if (part > 0) return;  // a compressed file is read from its beginning
                    const auto array = read_idx(image_file, images_expected);
                    if (array.bytes.size() != bytes) {
                      throw InputError(fmt::format("data: {} has changed while it was read",
                                                   image_file.string()));
                    }
                    std::ranges::copy(std::as_bytes(std::span(array.bytes)), memory.get());
                  }};
  load_ = load_later_or_now(std::move(load), loads_later);
}

std::span<const std::byte> MnistDataset::pixels(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw Error(fmt::format("data: sample {} of a dataset of {}", index, size()));
  if (!images_->memory) throw Error("data: a sample of MNIST is read before the images are loaded");
  return {images_->memory.get() + static_cast<std::size_t>(index) * pixels_, pixels_};
}

std::vector<std::string> MnistDataset::class_names() const {
  constexpr unsigned long of_training = 0x2ED6E46A, of_validation = 0x242BC73F;
  const auto checksum = ::crc32_z(0, labels_.data(), labels_.size());
  if (checksum != of_training && checksum != of_validation) return {};
  return {fashion_mnist_names.begin(), fashion_mnist_names.end()};
}

void MnistDataset::read(std::int64_t index, std::int64_t /*epoch*/,
                        const SampleSpans& place) const {
  check_read(index, place, pixels_, 1);
  const auto bytes = pixels(index);
  for (std::size_t i = 0; i < pixels_; ++i) {
    const auto pixel = static_cast<float>(std::to_integer<int>(bytes[i]));
    place.input[i] = (pixel / 255 - pixel_mean) / pixel_deviation;
  }
  place.label[0] = label(index);
}

}  // namespace kolo

namespace kolo::datasets {

// The four files in a folder. Images are varied only on request: digits have no mirror images.
struct MnistFiles {
  std::string path = {};
  ImageSettings images = {};
  std::string_view torchvision_name = "MNIST", usual_path = {};

  void check(const RefuseKey& refuse) const {
    if (path.empty() && usual_path.empty()) {
      refuse("path",
             "data mnist needs the folder that holds MNIST's four IDX files; kolo data fetch mnist "
             "-o data/mnist gets them");
    }
  }
  void complete() {
    if (path.empty()) path = usual_path;
    if (!images.horizontal_flip) images.horizontal_flip = false;
    images.complete(0, 0, NamedPreprocessing::none);
  }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const;
  [[nodiscard]] PredictionInputs inputs(const SampleLayout& layout,
                                        const std::filesystem::path& input) const;
  [[nodiscard]] SampleLayout layout(const DatasetRequest&) const { return {{1, 28, 28}, 10, {}}; }
};

Datasets MnistFiles::make(const DatasetRequest& request) const {
  const auto read = [&](Split split) {
    return at_key(request, "path", [&] {
      return std::make_shared<MnistDataset>(mnist_folder(path, torchvision_name), split,
                                            request.reading.loads_later);
    });
  };
  const auto read_training = read(Split::train), validation = read(Split::validation);
  const auto augmentation = images.augmentation(request);
  auto training = first_of(request, Split::train, read_training);
  if (!augmentation.is_identity()) {
    training = std::make_shared<AugmentedDataset>(training, augmentation, Preprocessing::none(),
                                                  request.seed);
  }
  return {.training = training,
          .validation = first_of(request, Split::validation, validation),
          .class_names = validation->class_names(),
          .loads = loads_of(*read_training, *validation)};
}

PredictionInputs MnistFiles::inputs(const SampleLayout& layout,
                                    const std::filesystem::path& input) const {
  if (is_idx_name(input.filename().native())) return {std::make_shared<MnistDataset>(input)};
  return image_inputs(input, layout, {}, {{255 * pixel_mean}, {255 * pixel_deviation}});
}

template <typename Field>
void visit(Field& field, MnistFiles& mnist) {
  field("path", mnist.path, PathText{});
  visit_variations(field, mnist.images);
}

DatasetEntry mnist() {
  return entry_of<MnistFiles>("mnist", "handwritten digits");
}

DatasetEntry fashion_mnist() {
  return entry_of<MnistFiles>(
      "fashion_mnist", "clothes, in MNIST's format; a Debian package",
      {.torchvision_name = "FashionMNIST", .usual_path = fashion_mnist_folder});
}

}  // namespace kolo::datasets
