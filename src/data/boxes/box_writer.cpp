#include "data/boxes/box_writer.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr std::int64_t buffer_bytes = std::int64_t{1} << 26;

void check_field(std::span<const float> values, std::int64_t size, BoxField field) {
  const std::array dimensions{channels_of(field), size, size, size};
  const auto expected = checked_product(std::span<const std::int64_t>(dimensions));
  if (size >= 1 && std::cmp_equal(values.size(), expected)) return;
  throw Error(fmt::format("data: the {} field of a box of {}^3 cells has {} numbers, expected {}",
                          field == BoxField::nbody ? "dark matter" : "gas", size, values.size(),
                          expected));
}

// Reads planes out of a box in memory.
PlaneReader planes_of(const SimulationBox& box) {
  check_field(box.nbody, box.size, BoxField::nbody);
  check_field(box.hydro, box.size, BoxField::hydro);
  return [&box](BoxField field, std::int64_t first, std::int64_t count, std::span<float> out) {
    const auto& values = field == BoxField::nbody ? box.nbody : box.hydro;
    const auto plane = box.size * box.size;
    for (std::int64_t channel = 0; channel < channels_of(field); ++channel) {
      std::copy_n(values.data() + (channel * box.size + first) * plane, count * plane,
                  out.data() + channel * count * plane);
    }
  };
}

}  // namespace

void write_box(BoxWriter& writer, std::int64_t size, std::int64_t multiple, const PlaneReader& read,
               const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const auto plane_bytes =
      checked_multiply(checked_multiply(size, size), static_cast<std::int64_t>(sizeof(float)));
  const auto fitting = buffer_bytes / checked_multiply(hydro_channels, plane_bytes);
  const auto step = std::min(size, std::max<std::int64_t>(1, fitting / multiple) * multiple);
  std::vector<float> values;
  std::int64_t done = 0;
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
    for (std::int64_t first = 0; first < size; first += step) {
      const auto count = std::min(step, size - first);
      values.resize(static_cast<std::size_t>(channels_of(field) * count * size * size));
      read(field, first, count, values);
      writer.write_planes(field, first, count, values);
      done += count;
      if (progress) progress(done, 2 * size);
    }
  }
  writer.commit();
}

void write_box_npy(const SimulationBox& box, const std::filesystem::path& prefix) {
  const auto read = planes_of(box);
  write_box(*make_npy_writer(prefix, box.size), box.size, 1, read);
}

void write_box_hdf5(const SimulationBox& box, const std::filesystem::path& file,
                    std::int64_t chunk) {
  const auto read = planes_of(box);
  write_box(*make_hdf5_writer(file, box.size, chunk, box.parameters), box.size,
            std::max<std::int64_t>(chunk, 1), read);
}

}  // namespace kolo
