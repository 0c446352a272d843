#include <array>
#include <numeric>
#include <span>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "data/boxes/field_source.h"
#include "data/boxes/number_conversion.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/npy.h"

namespace kolo {

namespace {

void check_shape(const std::filesystem::path& file, const NpyHeader& header, BoxField field) {
  const auto& shape = header.shape;
  const auto channels = channels_of(field);
  if (shape.size() == 4 && shape[3] == channels && shape[0] >= 1 && shape[0] == shape[1] &&
      shape[1] == shape[2]) {
    return;
  }
  throw InputError(fmt::format(
      "data: the shape of {} is ({}), expected (N, N, N, {}): a cube of "
      "cells with {} channels each, last",
      file.string(), shape_text(std::span<const std::int64_t>(shape)), channels, channels));
}

// Numbers of another type than float32, or in another order than C's, which are converted whenever
// they are read.
class ConvertedSource final : public FieldSource {
 public:
  ConvertedSource(MappedFile map, BoxFieldLayout layout, const NpyHeader& header,
                  std::int64_t channels)
      : FieldSource(std::move(layout), channels, header.shape[0]),
        map_(std::move(map)),
        type_(header.type),
        offset_(header.data_offset),
        strides_(strides_of(header)) {}

  FieldView view(const Region& region, std::vector<float>& scratch) const override {
    const auto& [start, extent] = region;
    scratch.resize(static_cast<std::size_t>(channels() * region.cells()));
    std::span<float> rest(scratch);
    for (std::int64_t channel = 0; channel < channels(); ++channel) {
      for (std::int64_t i = 0; i < extent[0]; ++i) {
        for (std::int64_t j = 0; j < extent[1]; ++j) {
          const auto row = rest.first(static_cast<std::size_t>(extent[2]));
          read_row({start[0] + i, start[1] + j, start[2], channel}, row);
          rest = rest.subspan(row.size());
        }
      }
    }
    return {scratch.data(), {region.cells(), extent[1] * extent[2], extent[2], 1}};
  }

 private:
  using Place = std::array<std::int64_t, 4>;  // as the file's axes: the channel last

  static Place strides_of(const NpyHeader& header) {
    Place strides{};
    std::int64_t step = 1;
    for (std::size_t i = 0; i < strides.size(); ++i) {
      const auto axis = header.is_fortran_order ? i : strides.size() - 1 - i;
      strides[axis] = step;
      step *= header.shape[axis];
    }
    return strides;
  }
  void read_row(const Place& first, std::span<float> numbers) const {
    const auto number =
        std::inner_product(first.begin(), first.end(), strides_.begin(), std::int64_t{0});
    const auto beyond = convert_numbers(type_, map_.data() + offset_ + number * type_.bytes,
                                        strides_[2] * type_.bytes, numbers);
    if (!beyond) return;
    throw InputError(fmt::format(
        "data: {} holds a number beyond float32's range at cell ({}, {}, {})",
        layout().file.string(), first[0], first[1], first[2] + static_cast<std::int64_t>(*beyond)));
  }

  MappedFile map_;
  NumberType type_;
  std::int64_t offset_;
  Place strides_;
};

std::unique_ptr<FieldSource> open_field(const std::filesystem::path& file, BoxField field) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    throw InputError(
        fmt::format("data: there is no {}; a .npy pair is X_data.npy and X_label.npy "
                    "in one folder",
                    file.string()));
  }
  const auto header = read_npy_header(file);
  check_shape(file, header, field);
  if (header.type.is_whole()) {
    throw InputError(fmt::format(
        "data: {} holds {} numbers, expected float32 (other floating-point numbers are converted)",
        file.string(), header.type.name()));
  }
  MappedFile map(file);
  const auto bytes = map.size() - header.data_offset;
  if (bytes != checked_multiply(checked_product(std::span<const std::int64_t>(header.shape)),
                                header.type.bytes)) {
    throw InputError(fmt::format("data: {} has changed while it was opened", file.string()));
  }
  const bool is_plain = header.type == NumberType() && !header.is_fortran_order;
  BoxFieldLayout layout{.file = file,
                        .type = header.type.name(),
                        .shape = header.shape,
                        .stored_bytes = bytes,
                        .is_mapped = true};
  if (is_plain)
    return make_mapped_source(std::make_shared<const MappedFile>(std::move(map)), std::move(layout),
                              header.data_offset, channels_of(field), header.shape[0], true);
  if (header.is_fortran_order) layout.type += " in Fortran order";
  return std::make_unique<ConvertedSource>(std::move(map), std::move(layout), header,
                                           channels_of(field));
}

void warn_of_conversion(OpenBox& box) {
  for (const auto& source : box.sources) {
    if (!source || source->layout().type == "float32") continue;
    box.warnings.push_back(
        fmt::format("data: {} is {}, which is converted whenever it is read; kolo data convert "
                    "makes a file that needs no conversion",
                    source->layout().file.string(), source->layout().type));
  }
}

}  // namespace

OpenBox open_npy_box(const std::filesystem::path& prefix, BoxFields fields) {
  const auto data = npy_data_file(prefix), label = npy_label_file(prefix);
  if (fields == BoxFields::nbody) return open_npy_file(data);
  std::error_code ignored;
  const auto is_left_out = [&](const std::filesystem::path& file,
                               const std::filesystem::path& other) {
    return fields == BoxFields::any && !std::filesystem::exists(file, ignored) &&
           std::filesystem::exists(other, ignored);
  };
  OpenBox box;
  if (!is_left_out(data, label)) box.sources[0] = open_field(data, BoxField::nbody);
  if (!is_left_out(label, data)) box.sources[1] = open_field(label, BoxField::hydro);
  box.size = box.sources[box.sources[0] ? 0 : 1]->size();
  if (box.sources[1] && box.sources[1]->size() != box.size) {
    throw InputError(fmt::format("data: {} has {}^3 cells and {} {}^3, expected as many",
                                 data.string(), box.size, label.string(), box.sources[1]->size()));
  }
  warn_of_conversion(box);
  return box;
}

OpenBox open_npy_file(const std::filesystem::path& file) {
  OpenBox box;
  box.sources[0] = open_field(file, BoxField::nbody);
  box.size = box.sources[0]->size();
  warn_of_conversion(box);
  return box;
}

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
