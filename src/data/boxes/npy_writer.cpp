#include <array>
#include <vector>

#include <fmt/format.h>

#include "data/boxes/box_writer.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/npy.h"

namespace kolo {

namespace {

class NpyWriter final : public BoxWriter {
 public:
  NpyWriter(const std::filesystem::path& prefix, std::int64_t size)
      : size_(size), data_(npy_data_file(prefix)), label_(npy_label_file(prefix)) {
    data_.write(npy_header_bytes(std::array{size, size, size, nbody_channels}));
    label_.write(npy_header_bytes(std::array{size, size, size, hydro_channels}));
  }

  void write_planes(BoxField field, std::int64_t first, std::int64_t count,
                    std::span<const float> values) override {
    auto& next = next_[field == BoxField::hydro];
    if (first != next) {
      throw Error(fmt::format("data: plane {} of a .npy file came when {} was due", first, next));
    }
    next += count;
    const auto channels = static_cast<std::size_t>(channels_of(field));
    const auto cells = static_cast<std::size_t>(count * size_ * size_);
    cells_.resize(channels * cells);
    for (std::size_t channel = 0; channel < channels; ++channel) {
      for (std::size_t cell = 0; cell < cells; ++cell) {
        cells_[cell * channels + channel] = values[channel * cells + cell];
      }
    }
    (field == BoxField::nbody ? data_ : label_).write(std::as_bytes(std::span(cells_)));
  }

  void commit() override {
    if (next_ != std::array{size_, size_}) throw Error("data: a .npy pair lacks planes");
    data_.commit();
    label_.commit();
  }

 private:
  std::int64_t size_;
  std::array<std::int64_t, 2> next_{};
  AtomicFile data_, label_;
  std::vector<float> cells_;  // [planes, N, N, channels]
};

}  // namespace

std::filesystem::path npy_data_file(const std::filesystem::path& prefix) {
  return prefix.string() + "_data.npy";
}

std::filesystem::path npy_label_file(const std::filesystem::path& prefix) {
  return prefix.string() + "_label.npy";
}

std::unique_ptr<BoxWriter> make_npy_writer(const std::filesystem::path& prefix, std::int64_t size) {
  return std::make_unique<NpyWriter>(prefix, size);
}

}  // namespace kolo
