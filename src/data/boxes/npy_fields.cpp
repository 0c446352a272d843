#include <system_error>

#include <fmt/format.h>

#include "data/boxes/field_source.h"
#include "data/boxes/shape_text.h"
#include "kolo/base/error.h"
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
  auto map = std::make_shared<const MappedFile>(file);
  const auto bytes = map->size() - header.data_offset;
  if (bytes != channels_of(field) * header.shape[0] * header.shape[0] * header.shape[0] * 4) {
    throw InputError(fmt::format("data: {} has changed while it was opened", file.string()));
  }
  const BoxFieldLayout layout{.file = file,
                              .type = "float32",
                              .shape = header.shape,
                              .stored_bytes = bytes,
                              .is_mapped = true};
  return make_mapped_source(std::move(map), layout, header.data_offset, channels_of(field),
                            header.shape[0], true);
}

}  // namespace

OpenBox open_npy_box(const std::filesystem::path& prefix) {
  const auto data = npy_data_file(prefix), label = npy_label_file(prefix);
  OpenBox box{.sources = {open_field(data, BoxField::nbody), open_field(label, BoxField::hydro)}};
  box.size = box.sources[0]->size();
  if (box.sources[1]->size() != box.size) {
    throw InputError(fmt::format("data: {} has {}^3 cells and {} {}^3, expected as many",
                                 data.string(), box.size, label.string(), box.sources[1]->size()));
  }
  return box;
}

}  // namespace kolo
