#include "data/device_samples.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "data/sample_kernels.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// The whole field, [channels, size, size, size], some planes at a time.
torch::Tensor on_device(const FieldSource& source, const c10::Device& device) {
  const auto channels = source.channels(), size = source.size();
  auto field = torch::empty({channels, size, size, size},
                            torch::TensorOptions(torch::kFloat32).device(device));
  std::vector<float> scratch;
  const auto step = source.plane_multiple();
  for (std::int64_t first = 0; first < size; first += step) {
    const auto count = std::min(step, size - first);
    const auto view = source.view({{first, 0, 0}, {count, size, size}}, scratch);
    const std::array shape{channels, count, size, size};
    // LibTorch has no tensor of const memory; this one is only read.
    const auto planes =
        torch::from_blob(const_cast<float*>(view.data), shape, view.strides, torch::kFloat32);
    field.narrow(1, first, count).copy_(planes);
  }
  return field;
}

// A packed sample is a samples::PackedCrop.
class BoxSamples final : public DeviceSamples {
 public:
  BoxSamples(const CropRule& rule, const FieldSource& nbody, const FieldSource& hydro,
             const c10::Device& device)
      : rule_(rule), nbody_(on_device(nbody, device)), hydro_(on_device(hydro, device)) {}

  [[nodiscard]] std::size_t packed_bytes() const override { return sizeof(samples::PackedCrop); }
  [[nodiscard]] bool makes_targets() const override { return true; }
  void pack(std::int64_t index, std::int64_t epoch, const PackedSpans& place) const override;
  [[nodiscard]] Made make(const torch::Tensor& packed) const override {
    return {crops_of(nbody_, packed), crops_of(hydro_, packed)};
  }

 private:
  [[nodiscard]] torch::Tensor crops_of(const torch::Tensor& field,
                                       const torch::Tensor& packed) const;

  CropRule rule_;
  torch::Tensor nbody_, hydro_;  // on the device
};

void BoxSamples::pack(std::int64_t index, std::int64_t epoch, const PackedSpans& place) const {
  const auto drawn = rule_.draw(index, epoch);
  samples::PackedCrop crop{};
  for (std::size_t i = 0; i < 3; ++i) {
    crop.start[i] = narrow<std::int32_t>(drawn.start[i]);
    crop.axis[i] = drawn.symmetry.axis[i];
    crop.sign[i] = drawn.symmetry.sign[i];
  }
  crop.turns_velocity = rule_.turns_velocity ? 1 : 0;
  std::memcpy(place.bytes.data(), &crop, sizeof crop);
}

void make_crops(const samples::CropBatch& batch) {
  const auto* const crops = reinterpret_cast<const samples::PackedCrop*>(batch.packed);
  const auto size = batch.crop;
  float* out = batch.out;
  for (std::int64_t sample = 0; sample < batch.samples; ++sample) {
    for (std::int64_t channel = 0; channel < batch.channels; ++channel) {
      for (std::int64_t cell = 0; cell < size * size * size; ++cell) {
        const std::int64_t place[3] = {cell / (size * size), cell / size % size, cell % size};
        *out++ = samples::crop_value(batch, crops[sample], channel, place);
      }
    }
  }
}

torch::Tensor BoxSamples::crops_of(const torch::Tensor& field, const torch::Tensor& packed) const {
  const auto samples = packed.size(0), channels = field.size(0), edge = rule_.crop;
  auto crops = torch::empty({samples, channels, edge, edge, edge}, field.options());
  const samples::CropBatch batch{.box = field.data_ptr<float>(),
                                 .packed = static_cast<const std::byte*>(packed.data_ptr()),
                                 .samples = samples,
                                 .channels = channels,
                                 .box_size = rule_.box_size,
                                 .crop = edge,
                                 .out = crops.data_ptr<float>()};
  if (field.is_cpu())
    make_crops(batch);
  else
    samples::make_crops_on(field.device(), batch);
  return crops;
}

}  // namespace

void require_box_fits(std::int64_t box_size, std::int64_t free_bytes, const c10::Device& device) {
  const auto needed = field_bytes(nbody_channels + hydro_channels, box_size);
  if (needed <= free_bytes) return;
  throw InputError(fmt::format(
      "data: a box of {}^3 cells takes {} bytes of device memory, and {} has {} free; mode inmem "
      "keeps it in the host's memory, lowmem in the file, and training and validation take one box "
      "each",
      box_size, needed, device.str(), free_bytes));
}

std::shared_ptr<const DeviceSamples> make_box_samples(const CropRule& rule,
                                                      const FieldSource& nbody,
                                                      const FieldSource& hydro,
                                                      const c10::Device& device) {
  if (!device.is_cpu() && !samples::has_kernels(device)) return nullptr;
  if (const auto free = samples::free_memory(device))
    require_box_fits(rule.box_size, *free, device);
  return std::make_shared<BoxSamples>(rule, nbody, hydro, device);
}

namespace {

// A sample is packed as its transform, then its pixels: as bytes where the source has bytes, else
// as numbers.
class ImageSamples final : public DeviceSamples {
 public:
  ImageSamples(const AugmentedDataset& images, const c10::Device& device)
      : images_(images),
        divisor_(images.source().byte_divisor()),
        shape_(images.layout().input_shape),
        pixels_(static_cast<std::size_t>(images.layout().input_size())),
        device_(device),
        mean_(of_channels(images.preprocessing().mean)),
        deviation_(of_channels(images.preprocessing().deviation)) {}

  [[nodiscard]] std::size_t packed_bytes() const override {
    constexpr std::size_t unit = 16;
    const auto bytes = sizeof(samples::PackedTransform) + pixel_bytes();
    return divide_up(bytes, unit) * unit;
  }
  [[nodiscard]] bool makes_targets() const override { return false; }
  void pack(std::int64_t index, std::int64_t epoch, const PackedSpans& place) const override;
  [[nodiscard]] Made make(const torch::Tensor& packed) const override;

 private:
  [[nodiscard]] std::size_t pixel_bytes() const {
    return pixels_ * (divisor_ ? sizeof(std::uint8_t) : sizeof(float));
  }
  [[nodiscard]] torch::Tensor of_channels(const std::vector<float>& numbers) const {
    return torch::tensor(numbers).expand({shape_[0]}).to(device_).contiguous();
  }

  AugmentedDataset images_;
  std::optional<float> divisor_;
  std::vector<std::int64_t> shape_;
  std::size_t pixels_;
  c10::Device device_;
  torch::Tensor mean_, deviation_;  // on the device
};

void ImageSamples::pack(std::int64_t index, std::int64_t epoch, const PackedSpans& place) const {
  const auto drawn = images_.transform(index, epoch);
  const samples::PackedTransform transform{drawn.shift_y,
                                           drawn.shift_x,
                                           drawn.zoom_y,
                                           drawn.zoom_x,
                                           drawn.flip ? 1 : 0,
                                           drawn.is_identity() ? 1 : 0,
                                           0};
  std::memcpy(place.bytes.data(), &transform, sizeof transform);
  auto* const pixels = place.bytes.data() + sizeof transform;
  if (divisor_) {
    images_.source().read_bytes(index, {reinterpret_cast<std::uint8_t*>(pixels), pixels_},
                                place.label);
  } else {
    images_.source().read(index, epoch,
                          {{reinterpret_cast<float*>(pixels), pixels_}, place.label, place.target});
  }
}

void make_images(const samples::ImageBatch& batch) {
  const std::int32_t size = batch.channels * batch.height * batch.width;
  for (std::int64_t sample = 0; sample < batch.samples; ++sample) {
    const std::byte* const packed = batch.packed + sample * batch.packed_bytes;
    float* const out = batch.out + sample * size;
    for (std::int32_t i = 0; i < size; ++i) {
      out[i] = batch.byte_divisor != 0 ? samples::pixel_of<std::uint8_t>(batch, packed, i)
                                       : samples::pixel_of<float>(batch, packed, i);
    }
  }
}

DeviceSamples::Made ImageSamples::make(const torch::Tensor& packed) const {
  auto images = torch::empty({packed.size(0), shape_[0], shape_[1], shape_[2]},
                             packed.options().dtype(torch::kFloat32));
  samples::ImageBatch batch{};
  batch.packed = static_cast<const std::byte*>(packed.data_ptr());
  batch.packed_bytes = packed.size(1);
  batch.samples = packed.size(0);
  batch.channels = narrow<std::int32_t>(shape_[0]);
  batch.height = narrow<std::int32_t>(shape_[1]);
  batch.width = narrow<std::int32_t>(shape_[2]);
  batch.byte_divisor = divisor_.value_or(0);
  batch.mean = mean_.data_ptr<float>();
  batch.deviation = deviation_.data_ptr<float>();
  batch.blue_first = images_.preprocessing().blue_first;
  batch.out = images.data_ptr<float>();
  if (device_.is_cpu())
    make_images(batch);
  else
    samples::make_images_on(device_, batch);
  return {std::move(images), {}};
}

}  // namespace

std::shared_ptr<const DeviceSamples> make_image_samples(const AugmentedDataset& images,
                                                        const c10::Device& device) {
  // Kernels count an image's numbers in 32 bits.
  const bool is_countable =
      images.layout().input_size() <= std::numeric_limits<std::int32_t>::max();
  if (!is_countable || !(device.is_cpu() || samples::has_kernels(device))) return nullptr;
  return std::make_shared<ImageSamples>(images, device);
}

}  // namespace kolo
