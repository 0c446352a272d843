#include "kolo/data/nbody.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "data/boxes/field_source.h"
#include "data/catalogue/dataset_settings.h"
#include "data/device_samples.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

constexpr std::uint32_t crop_stream = 0x63726f70;  // of this run's seed
constexpr std::int64_t most_box_size = 1 << 20;

std::span<const CubeSymmetry> symmetries_of(Rotations rotations) {
  const std::span<const CubeSymmetry> group(cube_group());
  switch (rotations) {
    case Rotations::none:
      return group.first(1);
    case Rotations::tutorial:
      return tutorial_rotations();
    case Rotations::vector:
      return group;
    case Rotations::proper:
      return group.first(24);
  }
  throw InputError(fmt::format("data: rotations number {}", static_cast<int>(rotations)));
}

void check(const NbodyOptions& options) {
  if (options.crop < 1 || options.crop > most_box_size) {
    throw InputError(fmt::format("data: crops of {}^3 cells, expected an edge of 1 to {}",
                                 options.crop, most_box_size));
  }
  if (options.samples < 1) {
    throw InputError(fmt::format("data: {} crops per epoch, expected at least 1", options.samples));
  }
  if (options.mode == BoxMode::synthetic &&
      (options.box_size < 1 || options.box_size > most_box_size)) {
    throw InputError(fmt::format("data: a synthetic box of {}^3 cells, expected an edge of 1 to {}",
                                 options.box_size, most_box_size));
  }
}

void check_memory(std::int64_t size, const char* advice) {
  const auto needed = field_bytes(nbody_channels + hydro_channels, size);
  const auto installed = installed_memory();
  if (!installed || needed <= *installed) return;
  throw InputError(
      fmt::format("data: a box of {}^3 cells in memory takes {} bytes and the machine has {}; {}",
                  size, needed, *installed, advice));
}

// Reads a part of the planes, of all channels, to where they are in the whole field.
void read_planes(const BoxFile& box, BoxField field, int part, int parts, std::span<float> values) {
  const auto channels = channels_of(field), size = box.size(), plane = size * size;
  const auto step = box.plane_multiple(), steps = divide_up(size, step);
  std::vector<float> planes;
  const auto end = std::min(size, (part + 1) * steps / parts * step);
  for (std::int64_t first = part * steps / parts * step; first < end; first += step) {
    const auto count = std::min(step, size - first);
    planes.resize(static_cast<std::size_t>(channels * count * plane));
    box.read_planes(field, first, count, planes);
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      std::copy_n(planes.data() + channel * count * plane, count * plane,
                  values.data() + (channel * size + first) * plane);
    }
  }
}

// HDF5 unpacks whole chunks: many times a crop, if they are large.
void warn_of_large_chunks(const ArrayLayout& layout, std::int64_t crop,
                          std::vector<std::string>& warnings) {
  if (layout.filters.empty()) return;
  double ratio = 1;
  for (std::size_t axis = 1; axis < 4; ++axis) {
    const auto covered =
        std::min(crop - 1 + layout.chunk[axis], std::max(layout.chunk[axis], layout.shape[axis]));
    ratio *= static_cast<double>(covered) / static_cast<double>(crop);
  }
  if (ratio <= 8) return;
  warnings.push_back(fmt::format(
      "data: the chunks of {} are ({}) numbers, far larger than crops of {}^3: a crop unpacks "
      "about {:.0f} times what it needs; kolo data convert writes the box without chunks",
      layout.file.string(), shape_text(layout.chunk), crop, ratio));
}

}  // namespace

NbodyDataset::NbodyDataset(NbodyOptions options)
    : options_(std::move(options)),
      rule_{.seed = derive_seed(options_.seed, crop_stream, 0),
            .samples = options_.samples,
            .crop = options_.crop,
            .varies_with_epoch = options_.varies_with_epoch,
            .symmetries = symmetries_of(options_.rotations),
            .turns_velocity = options_.rotations == Rotations::vector ||
                              options_.rotations == Rotations::proper} {
  check(options_);
  const auto edge = options_.crop;
  part_.fill({0, edge});
  layout_.input_shape = {nbody_channels, edge, edge, edge};
  layout_.target_shape = {hydro_channels, edge, edge, edge};
  cells_ = static_cast<std::size_t>(edge * edge * edge);
  try {
    open();
  } catch (const std::bad_alloc&) {
    throw InputError(
        fmt::format("data: a box of {}^3 cells doesn't fit into memory", rule_.box_size));
  }
}

NbodyDataset::NbodyDataset(const NbodyDataset& whole, std::span<const RowRange> rows)
    : options_(whole.options_),
      rule_(whole.rule_),
      layout_(whole.layout_),
      nbody_(whole.nbody_),
      hydro_(whole.hydro_),
      warnings_(whole.warnings_) {
  if (options_.mode == BoxMode::device)
    options_.mode = BoxMode::lowmem;  // devices make whole crops
  cells_ = 1;
  for (std::size_t i = 0; i < part_.size(); ++i) {
    const auto before = whole.part_[i].begin;
    part_[i] = {before + rows[i].begin, before + rows[i].end};
    layout_.input_shape[i + 1] = layout_.target_shape[i + 1] = rows[i].size();
    cells_ *= static_cast<std::size_t>(rows[i].size());
  }
}

std::shared_ptr<const Dataset> NbodyDataset::part(std::span<const RowRange> rows) const {
  // A private constructor is no std::make_shared's to call.
  return std::shared_ptr<const NbodyDataset>(new NbodyDataset(*this, rows));
}

MemoryLoad NbodyDataset::keep_in_memory(const ReadBox& read) {
  const auto size = rule_.box_size;
  const auto cells = static_cast<std::size_t>(size * size * size);
  const auto of_nbody = nbody_channels * cells, of_hydro = hydro_channels * cells;
  const auto nbody = std::make_shared<FieldSource>(nbody_channels, size);
  const auto hydro = std::make_shared<FieldSource>(hydro_channels, size);
  nbody_ = nbody;
  hydro_ = hydro;
  const auto fill = [=](const std::shared_ptr<std::byte>& memory, int part, int parts) {
    auto* const values = reinterpret_cast<float*>(memory.get());
    read({values, of_nbody}, {values + of_nbody, of_hydro}, part, parts);
    nbody->fill({memory, values});
    hydro->fill({memory, values + of_nbody});
  };
  return {sizeof(float) * (of_nbody + of_hydro), fill,
          "read crops from the file (data.mode: lowmem)"};
}

void NbodyDataset::open() {
  auto& box_size = rule_.box_size;
  const auto check_crop = [&](const std::string& box) {
    if (options_.crop <= box_size) return;
    throw InputError(fmt::format("data: crops of {}^3 cells don't fit {} of {}^3 cells",
                                 options_.crop, box, box_size));
  };
  if (options_.mode == BoxMode::synthetic) {
    box_size = options_.box_size;
    check_crop("a synthetic box");
    check_memory(box_size, "expected a smaller box");
    const RandomDataset box({.input_shape = {nbody_channels, box_size, box_size, box_size},
                             .target_shape = {hydro_channels, box_size, box_size, box_size}},
                            1, options_.seed);
    return load_alone(keep_in_memory([&](auto nbody, auto hydro, int, int) {
      box.read(0, 0, {nbody, {}, hydro});
    }));
  }
  if (options_.file.empty()) throw InputError("data: a simulation box needs a file");
  const BoxFile box(options_.file);
  box_size = box.size();
  check_crop(options_.file.string());
  if (options_.mode == BoxMode::inmem) {
    check_memory(box_size, "the mode lowmem reads crops from the file");
    auto load = keep_in_memory([box](auto nbody, auto hydro, int part, int parts) {
      read_planes(box, BoxField::nbody, part, parts, nbody);
      read_planes(box, BoxField::hydro, part, parts, hydro);
    });
    load_ = load_later_or_now(std::move(load), options_.loads_later);
    return;
  }
  warnings_ = box.warnings();
  warn_of_large_chunks(box.layout(BoxField::nbody), options_.crop, warnings_);
  warn_of_large_chunks(box.layout(BoxField::hydro), options_.crop, warnings_);
  nbody_ = box.source(BoxField::nbody);
  hydro_ = box.source(BoxField::hydro);
}

NbodyCrop CropRule::draw(std::int64_t index, std::int64_t epoch) const {
  if (index < 0 || index >= samples)
    throw Error(fmt::format("data: crop {} of {} in an epoch", index, samples));
  const auto stream = varies_with_epoch ? narrow<std::uint32_t>(epoch) : 0U;
  CounterRandom random(seed, stream, static_cast<std::uint64_t>(index));
  NbodyCrop drawn;
  for (auto& start : drawn.start)
    start = random.below(static_cast<std::uint32_t>(box_size - crop + 1));
  drawn.rotation = random.below(static_cast<std::uint32_t>(symmetries.size()));
  drawn.symmetry = symmetries[static_cast<std::size_t>(drawn.rotation)];
  return drawn;
}

std::shared_ptr<const DeviceSamples> NbodyDataset::device_samples(const c10::Device& device) const {
  if (options_.mode != BoxMode::device) return nullptr;
  return make_box_samples(rule_, *nbody_, *hydro_, device);
}

void NbodyDataset::read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const {
  check_read(index, place, static_cast<std::size_t>(nbody_channels) * cells_,
             static_cast<std::size_t>(hydro_channels) * cells_);
  const auto sample = crop(index, epoch);
  read_field(*nbody_, sample, place.input);
  read_field(*hydro_, sample, place.target);
}

// Axis j of the crop becomes axis[j] of the sample, backwards where its sign is negative.
Region NbodyDataset::region_of(const NbodyCrop& crop) const {
  Region region;
  for (std::size_t j = 0; j < part_.size(); ++j) {
    const auto& rows = part_[static_cast<std::size_t>(crop.symmetry.axis[j])];
    const auto first = crop.symmetry.sign[j] > 0 ? rows.begin : options_.crop - rows.end;
    region.start[j] = crop.start[j] + first;
    region.extent[j] = rows.size();
  }
  return region;
}

void NbodyDataset::read_field(const FieldSource& source, const NbodyCrop& crop,
                              std::span<float> out) const {
  static thread_local std::vector<float> scratch, plane;  // kept from sample to sample
  const auto region = region_of(crop);
  const auto view = source.view(region, scratch);
  copy_rotated(view, source.channels(), region.extent, {crop.symmetry, rule_.turns_velocity}, plane,
               out.data());
}

}  // namespace kolo

namespace kolo::datasets {

struct Nbody {
  std::string train_path, valid_path;  // an HDF5 file or a .npy pair each, unless synthetic
  NbodyOptions options;

  void check(const RefuseKey& refuse) const;
  [[nodiscard]] Datasets make(const DatasetRequest& request) const;
  [[nodiscard]] std::string samples() const { return "crops"; }
  [[nodiscard]] std::string needs_gpu() const;
  [[nodiscard]] SampleLayout layout(const DatasetRequest&) const {
    const auto edge = options.crop;
    return {{nbody_channels, edge, edge, edge}, 0, {hydro_channels, edge, edge, edge}};
  }
};

template <typename Field>
void visit(Field& field, Nbody& nbody) {
  field("train_path", nbody.train_path, PathText{});
  field("valid_path", nbody.valid_path, PathText{});
  field("mode", nbody.options.mode, AnyName{});
  field("crop", nbody.options.crop, positive.up_to(most_cells));
  field("box_size", nbody.options.box_size, positive.up_to(most_cells));
  field("rotations", nbody.options.rotations, AnyName{});
}

void Nbody::check(const RefuseKey& refuse) const {
  if (options.mode == BoxMode::synthetic) {
    if (options.box_size >= options.crop) return;
    refuse("box_size", fmt::format("a box of {} cells has no crops of {}; make it larger, or "
                                   "data.crop smaller",
                                   options.box_size, options.crop));
  }
  for (const auto& [key, path] :
       {std::pair("train_path", &train_path), std::pair("valid_path", &valid_path)}) {
    if (path->empty()) {
      refuse(key,
             "data nbody needs a simulation box, an HDF5 file or a pair of .npy files (kolo data "
             "nbody --size 64 -o data/nbody/box.h5 makes one), or mode: synthetic");
    }
  }
}

std::string Nbody::needs_gpu() const {
  if (options.mode != BoxMode::device) return {};
  return "data.mode is device, which keeps the simulation box in a GPU's memory: without one, "
         "lowmem reads crops from the file, and inmem keeps the box in the host's memory";
}

// Draws and turns validation crops like the others, but the same in every epoch, so that epochs and
// runs compare.
Datasets Nbody::make(const DatasetRequest& request) const {
  const bool has_files = options.mode != BoxMode::synthetic;
  auto each = options;
  each.seed = request.seed;
  each.loads_later = request.reading.loads_later;
  if (has_files) each.file = train_path;
  each.samples = request.n_train.value();
  const auto read = [&](std::string_view key) {
    return at_key(request, has_files ? key : "mode",
                  [&] { return std::make_shared<NbodyDataset>(each); });
  };
  auto training = read("train_path");
  if (has_files) each.file = valid_path;
  each.samples = request.n_valid.value();
  each.seed = request.seed + 1;
  each.varies_with_epoch = false;
  auto validation = read("valid_path");
  auto warnings = training->warnings();
  warnings.insert(warnings.end(), validation->warnings().begin(), validation->warnings().end());
  auto loads = loads_of(*training, *validation);
  return {.training = std::move(training),
          .validation = std::move(validation),
          .warnings = std::move(warnings),
          .loads = std::move(loads),
          .input_names = channel_names(BoxField::nbody),
          .target_names = channel_names(BoxField::hydro)};
}

DatasetEntry nbody() {
  auto entry = entry_of<Nbody>("nbody", "crops of simulation boxes, with fields for targets");
  entry.needs_n_train = "data nbody needs the number of crops per epoch";
  entry.needs_n_valid = "data nbody needs the number of crops a validation has";
  entry.validation_key = "valid_path";
  entry.order_keys = {"mode", "crop", "box_size"};
  return entry;
}

}  // namespace kolo::datasets
