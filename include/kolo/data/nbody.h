#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/data/box_files.h"
#include "kolo/data/dataset.h"

namespace kolo {

enum class BoxMode {
  lowmem,     // crops are read from the file (memory-mapped where its layout allows)
  inmem,      // the whole box is read into memory first
  synthetic,  // no file: standard normal numbers in memory, read like a box
  device      // the whole box is read into the device's memory, where crops are cut out; reads on
              // the host are as with lowmem
};

constexpr auto enum_names(BoxMode) {
  return std::to_array<EnumName<BoxMode>>({{BoxMode::lowmem, "lowmem"},
                                           {BoxMode::inmem, "inmem"},
                                           {BoxMode::synthetic, "synthetic"},
                                           {BoxMode::device, "device"}});
}

// Turns of a crop. `tutorial` moves the cells of all components alike, as scalars; `vector`
// and `proper` also turn the velocities: for out(i) = in(M i) the components transform as
// v'_j = sum_i M_ij v_i (component j is the one along axis j), which keeps the divergence.
enum class Rotations {
  none,
  tutorial,  // the 24 of NERSC's tutorial
  vector,    // all 48 of the cube group
  proper     // its 24 without reflections
};

constexpr auto enum_names(Rotations) {
  return std::to_array<EnumName<Rotations>>({{Rotations::none, "none"},
                                             {Rotations::tutorial, "tutorial"},
                                             {Rotations::vector, "vector"},
                                             {Rotations::proper, "proper"}});
}

struct NbodyOptions {
  std::filesystem::path file;  // X.h5, or either file or the prefix of a .npy pair; not synthetic
  BoxMode mode = BoxMode::lowmem;
  std::int64_t box_size = 128;  // cells an edge of a synthetic box
  std::int64_t crop = 64;       // cells an edge of a sample
  std::int64_t samples = 1;     // in an epoch
  Rotations rotations = Rotations::vector;
  std::uint64_t seed = 1;
  bool varies_with_epoch = true;  // false: the same crops in every epoch, for validation
  bool loads_later = false;       // inmem: the box is read by load(), not at once
};

// Place of a sample in its box, and how it is turned.
struct NbodyCrop {
  std::array<std::int64_t, 3> start{};  // uniform in 0 to box size - crop, both included
  std::int64_t rotation = 0;            // its number among those of Rotations
  CubeSymmetry symmetry;
};

// Drawing of crops: a pure function of index and epoch.
struct CropRule {
  std::uint64_t seed = 0;
  std::int64_t samples = 1, box_size = 0, crop = 0;
  bool varies_with_epoch = true;
  std::span<const CubeSymmetry> symmetries;
  bool turns_velocity = false;

  // Error for an index outside [0, samples).
  [[nodiscard]] NbodyCrop draw(std::int64_t index, std::int64_t epoch) const;
};

class FieldSource;

// Random crops of a simulation box (see kolo/data/box_files.h for the formats): input [4, c, c, c],
// the dark matter, target [5, c, c, c], the gas; both turned alike. Sample `index` of `epoch`
// depends on the seed and these two alone.
//
// All threads read memory-mapped fields at once, and one at a time fields that need the HDF5
// library (compression, other types). Cost: one pass over the crop, 9 c^3 numbers.
class NbodyDataset final : public Dataset {
 public:
  // InputError for a file that is no box, options out of range, a box smaller than the crop.
  explicit NbodyDataset(NbodyOptions options);

  [[nodiscard]] std::int64_t size() const override { return options_.samples; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override;

  // Shares the box, and reads from it only cells of the part, also with BoxMode::device.
  [[nodiscard]] std::shared_ptr<const Dataset> part(std::span<const RowRange> rows) const override;
  // Reads the box into the device's memory, anew with every call; null unless BoxMode::device.
  // InputError if it does not fit.
  [[nodiscard]] std::shared_ptr<const DeviceSamples> device_samples(
      const c10::Device& device) const override;

  [[nodiscard]] std::int64_t box_size() const { return rule_.box_size; }
  [[nodiscard]] NbodyCrop crop(std::int64_t index, std::int64_t epoch) const {
    return rule_.draw(index, epoch);
  }
  // Reading of the box, to be done before samples are read; unset without loads_later.
  [[nodiscard]] const std::optional<MemoryLoad>& load() const { return load_; }
  // Notes on the file for the user, for the run's log.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  NbodyDataset(const NbodyDataset& whole, std::span<const RowRange> rows);
  void open();
  // Makes sources in memory, dark matter before gas, and returns the load that fills them, which
  // calls `read` once per part.
  using ReadBox =
      std::function<void(std::span<float> nbody, std::span<float> hydro, int part, int parts)>;
  [[nodiscard]] MemoryLoad keep_in_memory(const ReadBox& read);
  // Region of the box that a sample's part is, before it is turned.
  [[nodiscard]] Region region_of(const NbodyCrop& crop) const;
  void read_field(const FieldSource& source, const NbodyCrop& crop, std::span<float> out) const;

  NbodyOptions options_;
  CropRule rule_;
  std::array<RowRange, 3> part_{};  // rows of a turned crop that are read
  SampleLayout layout_;
  std::size_t cells_ = 0;  // of the part
  std::shared_ptr<const FieldSource> nbody_, hydro_;
  std::optional<MemoryLoad> load_;
  std::vector<std::string> warnings_;
};

}  // namespace kolo
