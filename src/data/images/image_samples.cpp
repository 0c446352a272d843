#include "data/images/image_samples.h"

#include <cstring>
#include <limits>
#include <utility>

#include "data/sample_device.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

// A sample is packed as its transform, then its pixels: as bytes where the source has bytes, else
// as numbers.
class ImageSamples final : public DeviceSamples {
 public:
  ImageSamples(std::shared_ptr<const Dataset> source, const Augmentation& augmentation,
               const Preprocessing& preprocessing, const c10::Device& device)
      : source_(std::move(source)),
        augmentation_(augmentation),
        blue_first_(preprocessing.blue_first),
        divisor_(source_->byte_divisor()),
        shape_(source_->layout().input_shape),
        pixels_(static_cast<std::size_t>(source_->layout().input_size())),
        device_(device),
        mean_(of_channels(preprocessing.mean)),
        deviation_(of_channels(preprocessing.deviation)) {}

  [[nodiscard]] std::size_t packed_bytes() const override {
    constexpr std::size_t unit = 16;
    const auto bytes = sizeof(samples::PackedTransform) + pixel_bytes();
    return (bytes + unit - 1) / unit * unit;
  }
  [[nodiscard]] bool makes_targets() const override { return false; }
  void pack(std::int64_t index, std::int64_t epoch, const PackedPlace& place) const override;
  [[nodiscard]] Made make(const torch::Tensor& packed) const override;

 private:
  [[nodiscard]] std::size_t pixel_bytes() const {
    return pixels_ * (divisor_ ? sizeof(std::uint8_t) : sizeof(float));
  }
  [[nodiscard]] torch::Tensor of_channels(const std::vector<float>& numbers) const {
    return torch::tensor(numbers).expand({shape_[0]}).to(device_).contiguous();
  }

  std::shared_ptr<const Dataset> source_;
  Augmentation augmentation_;
  bool blue_first_;
  std::optional<float> divisor_;
  std::vector<std::int64_t> shape_;
  std::size_t pixels_;
  c10::Device device_;
  torch::Tensor mean_, deviation_;  // on the device
};

void ImageSamples::pack(std::int64_t index, std::int64_t epoch, const PackedPlace& place) const {
  const auto drawn = augmentation_.draw(index, epoch, shape_[1], shape_[2]);
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
    source_->read_bytes(index, {reinterpret_cast<std::uint8_t*>(pixels), pixels_}, place.label);
  } else {
    source_->read(index, epoch,
                  {{reinterpret_cast<float*>(pixels), pixels_}, place.label, place.target});
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
  batch.blue_first = blue_first_;
  batch.is_filled = augmentation_.fill().mode == Fill::constant;
  batch.fill = augmentation_.fill().value;
  batch.out = images.data_ptr<float>();
  if (device_.is_cpu())
    samples::make_images(batch);
  else
    samples::make_images_on(device_, batch);
  return {std::move(images), {}};
}

}  // namespace

std::shared_ptr<const DeviceSamples> make_image_samples(std::shared_ptr<const Dataset> source,
                                                        const Augmentation& augmentation,
                                                        const Preprocessing& preprocessing,
                                                        const c10::Device& device) {
  // Kernels count an image's numbers in 32 bits.
  const bool is_countable =
      source->layout().input_size() <= std::numeric_limits<std::int32_t>::max();
  if (!is_countable || !(device.is_cpu() || samples::has_kernels(device))) return nullptr;
  return std::make_shared<ImageSamples>(std::move(source), augmentation, preprocessing, device);
}

}  // namespace kolo
