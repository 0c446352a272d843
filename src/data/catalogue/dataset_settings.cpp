#include "data/catalogue/dataset_settings.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/data/array_samples.h"
#include "kolo/data/dataset.h"
#include "kolo/data/image_folder.h"

namespace kolo {

namespace {

bool is_channel_count(std::int64_t length) {
  return length == 1 || length == 3 || length == 4;
}

}  // namespace

void put_channels_first(std::vector<std::int64_t>& shape) {
  if (shape.size() == 3 && is_channel_count(shape[2]) && !is_channel_count(shape[0]))
    std::rotate(shape.begin(), shape.begin() + 2, shape.end());
}

void check_shape(const RefuseKey& refuse, std::string_view key,
                 const std::vector<std::int64_t>& shape) {
  try {
    (void)checked_product(std::span<const std::int64_t>(shape));
  } catch (const Error&) {
    refuse(key, "the product of the sizes does not fit 64 bits");
  }
}

const DatasetEntry& dataset_entry(std::string_view name) {
  return entry_named(built_in_datasets(), name, "data: unknown data set");
}

Datasets random_datasets(const SampleLayout& layout, std::int64_t n_train, std::int64_t n_valid,
                         std::uint64_t seed) {
  return {std::make_shared<RandomDataset>(layout, n_train, seed),
          std::make_shared<RandomDataset>(layout, n_valid, seed + 1)};
}

namespace datasets {

std::shared_ptr<const Dataset> first_of(const DatasetRequest& request, Split split,
                                        std::shared_ptr<const Dataset> dataset, bool is_spread) {
  const bool is_training = split == Split::train;
  const auto count = is_training ? request.n_train : request.n_valid;
  if (!count || *count == dataset->size()) return dataset;
  if (*count > dataset->size()) {
    request.refuse(
        is_training ? "n_train" : "n_valid",
        fmt::format("{} samples asked for, but the data set has {}", *count, dataset->size()));
  }
  std::vector<std::int64_t> samples(static_cast<std::size_t>(*count));
  std::iota(samples.begin(), samples.end(), 0);
  if (is_spread)
    for (auto& sample : samples) sample = checked_multiply(sample, dataset->size()) / *count;
  return std::make_shared<Subset>(std::move(dataset), std::move(samples));
}

SplitSamples split_samples(const DatasetRequest& request, std::string_view ending,
                           const std::shared_ptr<const Dataset>& training,
                           const std::shared_ptr<const Dataset>& validation,
                           std::span<const std::int64_t> class_ends,
                           std::span<const std::string> class_names) {
  constexpr std::int64_t stride = 5;
  std::vector<std::int64_t> trains, validates;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < class_ends.size(); begin = class_ends[i++]) {
    if (class_ends[i] - begin < 2) {
      request.refuse(
          fmt::format("train_{}", ending),
          fmt::format("{} one sample, which can't both train and validate; add some, or name "
                      "others in data.valid_{}",
                      class_names.empty() ? "there is" : fmt::format("{} has", class_names[i]),
                      ending));
    }
    for (auto sample = begin; sample < class_ends[i]; ++sample)
      ((sample - begin) % stride == 1 ? validates : trains).push_back(sample);
  }
  return {std::make_shared<Subset>(training, std::move(trains)),
          std::make_shared<Subset>(validation, std::move(validates)),
          fmt::format("data: every fifth sample{} validates, as there is no valid_{}",
                      class_names.empty() ? "" : " of each class", ending)};
}

void ImageSettings::complete(double shift, double usual_zoom, NamedPreprocessing usual) {
  height_shift = height_shift.value_or(shift);
  width_shift = width_shift.value_or(shift);
  zoom = zoom.value_or(usual_zoom);
  horizontal_flip = horizontal_flip.value_or(true);
  if (preprocessing == NamedPreprocessing::automatic) preprocessing = usual;
}

AugmentationOptions ImageSettings::augmentation(const DatasetRequest& request) const {
  if (!augment || !request.reading.varies) return {};
  AugmentationOptions options{.height_shift = height_shift.value(),
                              .width_shift = width_shift.value(),
                              .horizontal_flip = horizontal_flip.value()};
  options.zoom_low = 1 - *zoom;
  options.zoom_high = 1 + *zoom;
  return options;
}

Preprocessing preprocessing_of(NamedPreprocessing name) {
  switch (name) {
    case NamedPreprocessing::unit:
      return Preprocessing::unit();
    case NamedPreprocessing::caffe:
      return Preprocessing::caffe();
    case NamedPreprocessing::imagenet:  // of its training images, as torchvision has them
      return Preprocessing::mean_deviation({.485F, .456F, .406F}, {.229F, .224F, .225F});
    case NamedPreprocessing::none:
    case NamedPreprocessing::automatic:
      break;
  }
  return Preprocessing::none();
}

PredictionInputs image_inputs(const std::filesystem::path& path, const SampleLayout& layout,
                              const AugmentationOptions& view, const Preprocessing& preprocessing) {
  const auto& shape = layout.input_shape;
  const auto images = std::make_shared<ImageFolderDataset>(ImageFolderDataset::without_classes(
      path, {.height = shape.at(1), .width = shape.at(2), .is_grey = shape.at(0) == 1}));
  PredictionInputs inputs{std::make_shared<AugmentedDataset>(images, view, preprocessing, 0)};
  inputs.file = [images](std::int64_t index) { return std::string(images->listing().name(index)); };
  if (const auto left_out = left_out_text(images->listing()); !left_out.empty())
    inputs.warnings = {fmt::format("data: {}: {}", path.string(), left_out)};
  return inputs;
}

struct Dummy {
  std::vector<std::int64_t> input_shape;
  std::optional<std::int64_t> n_classes;
  std::vector<std::int64_t> target_shape;  // targets are numbers of this shape instead of labels

  void check(const RefuseKey& refuse) const {
    if (input_shape.empty())
      refuse("input_shape", "data dummy needs the shape of one sample, for example [1, 28, 28]");
    check_shape(refuse, "input_shape", input_shape);
    check_shape(refuse, "target_shape", target_shape);
    if (!target_shape.empty() && n_classes)
      refuse("target_shape", "targets are numbers (target_shape) or labels (n_classes), not both");
  }
  void complete() { put_channels_first(input_shape); }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const {
    const auto training = request.n_train.value();
    const auto validation = request.n_valid.value_or(std::max<std::int64_t>(1, training / 8));
    return random_datasets(layout(request), training, validation, request.seed);
  }
  [[nodiscard]] SampleLayout layout(const DatasetRequest& request) const {
    return {input_shape, target_shape.empty() ? labels(request) : 0, target_shape};
  }
  [[nodiscard]] std::string samples() const { return target_shape.empty() ? "images" : "samples"; }
  [[nodiscard]] PredictionInputs inputs(const SampleLayout&,
                                        const std::filesystem::path& path) const {
    return {std::make_shared<ArraySamples>(path, ArraySamplesOptions{.has_targets = false})};
  }

 private:
  // Unless the data says, there are as many labels as the network tells apart.
  [[nodiscard]] std::int64_t labels(const DatasetRequest& request) const {
    if (n_classes) return *n_classes;
    const auto outputs = request.model_classes.value_or(10);
    return outputs == 1 ? 2 : outputs;
  }
};

template <typename Field>
void visit(Field& field, Dummy& dummy) {
  field("input_shape", dummy.input_shape, positive.up_to(most_of_a_kind));
  field("n_classes", dummy.n_classes, positive.up_to(most_of_a_kind), Unset{"the model's, or 10"});
  field("target_shape", dummy.target_shape, positive.up_to(most_of_a_kind));
}

DatasetEntry dummy() {
  auto entry = entry_of<Dummy>("dummy", "random samples");
  entry.needs_n_train = "data dummy needs the number of samples to make, for example 2048";
  return entry;
}

}  // namespace datasets
}  // namespace kolo
