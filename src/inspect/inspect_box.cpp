#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kolo/base/machine.h"
#include "kolo/data/box_files.h"
#include "kolo/inspect/inspection.h"
#include "kolo/observe/format.h"

namespace kolo {

namespace {

constexpr std::array channel_names{"rho", "vx", "vy", "vz", "T"};

std::string channel_name(std::int64_t channel) {
  return channel_names[static_cast<std::size_t>(channel)];
}

void read_ranges(const BoxFile& box, BoxField field, ArrayInspection& array) {
  const auto channels = channels_of(field), size = box.size();
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    array.ranges.emplace_back(channel_name(channel), Range());
  }
  const auto step = std::min(box.plane_multiple(), size);
  std::vector<float> planes;
  for (std::int64_t first = 0; first < size; first += step) {
    const auto count = std::min(step, size - first);
    const auto cells = static_cast<std::size_t>(count * size * size);
    planes.resize(static_cast<std::size_t>(channels) * cells);
    box.read_planes(field, first, count, planes);
    for (std::size_t channel = 0; channel < array.ranges.size(); ++channel) {
      array.ranges[channel].second.add(std::span(planes).subspan(channel * cells, cells));
    }
  }
}

void advise_on_ranges(const ArrayInspection& array, std::vector<std::string>& advice) {
  for (const auto& [name, range] : array.ranges) {
    if (range.not_finite() > 0) {
      advice.push_back(
          fmt::format("{} of the numbers of {}'s {} are not finite; no network can "
                      "learn from them",
                      format_count(range.not_finite()), array.name, name));
    }
    if (range.least() < -1 || range.most() > 1) {
      advice.push_back(
          fmt::format("{}'s {} runs from {:.3g} to {:.3g}; normalized fields are "
                      "within -1 to 1, as a tanh gives them",
                      array.name, name, range.least(), range.most()));
    }
  }
}

void advise_on_memory(std::uint64_t bytes, std::vector<std::string>& advice) {
  const auto installed = installed_memory();
  if (!installed) return;
  const auto memory = static_cast<std::uint64_t>(*installed);
  if (bytes > memory - memory / 4) {
    advice.push_back(
        fmt::format("larger than the page cache of this machine's {} can keep, so crops "
                    "come from the disk again and again: put the file on a fast local one",
                    format_bytes(memory)));
  } else {
    advice.emplace_back(
        "fits into the page cache: once read, mode lowmem is about as fast as inmem, and "
        "the ranks of a machine share it");
  }
}

}  // namespace

Inspection inspect_box(const std::filesystem::path& path, bool reads_numbers) {
  const BoxFile box(path, BoxFields::any);
  const bool is_npy = box.format() == BoxFormat::npy;
  Inspection inspection{.path = path.string(),
                        .format = is_npy ? "simulation box, .npy pair" : "simulation box, HDF5"};
  bool is_mapped = true;
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
    if (!box.has(field)) continue;
    const auto& layout = box.layout(field);
    const auto* const name = field == BoxField::nbody ? "Nbody" : "Hydro";
    ArrayInspection array{.name = is_npy ? layout.file.filename().string() : name,
                          .type = layout.type_text(),
                          .shape = layout.shape,
                          .chunk = layout.chunk,
                          .filters = layout.filters};
    if (reads_numbers) read_ranges(box, field, array);
    inspection.bytes += static_cast<std::uint64_t>(layout.stored_bytes);
    is_mapped = is_mapped && layout.is_mapped;
    advise_on_ranges(array, inspection.advice);
    inspection.arrays.push_back(std::move(array));
  }
  if (!is_npy) {
    const auto file = box.layout(box.has(BoxField::nbody) ? BoxField::nbody : BoxField::hydro).file;
    add_attributes(file, inspection);
  }
  if (!is_mapped) {
    inspection.advice.emplace_back(
        "one thread at a time can read it, through the HDF5 library; kolo data convert makes a "
        "file "
        "that all threads read at once");
  } else if (!box.layout(box.has(BoxField::nbody) ? BoxField::nbody : BoxField::hydro)
                  .chunk.empty()) {
    inspection.advice.emplace_back(
        "in chunks, which are read as they lie; a contiguous box is read faster (kolo data "
        "convert)");
  }
  if (box.has(BoxField::nbody) && box.has(BoxField::hydro)) {
    advise_on_memory(inspection.bytes, inspection.advice);
  } else {
    inspection.advice.push_back(
        fmt::format("the {} is not there, so no network can be trained on it",
                    box.has(BoxField::nbody) ? "gas (Hydro)" : "dark matter (Nbody)"));
  }
  return inspection;
}

}  // namespace kolo
