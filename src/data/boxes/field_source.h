#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kolo/data/box_files.h"
#include "kolo/data/cube_symmetry.h"

namespace kolo {

// Numbers that lie somewhere in memory: element (channel, i, j, k) is at data[channel strides[0] +
// i strides[1] + j strides[2] + k strides[3]].
struct FieldView {
  const float* data = nullptr;
  std::array<std::int64_t, 4> strides{};
};

// One field of a box, wherever its numbers are. Const functions may be called by any number of
// threads at once.
class FieldSource {
 public:
  virtual ~FieldSource() = default;

  // The numbers of a region inside the box, of all channels: where they lie, if they can be read
  // there, or copied into `scratch`. Valid as long as the source and scratch are, unchanged.
  [[nodiscard]] virtual FieldView view(const Region& region, std::vector<float>& scratch) const = 0;
  // The region is read soon: has the system read ahead what of a file it lies in, without waiting.
  virtual void announce(const Region& /*region*/) const {}
  // How many planes of the first axis are kept together.
  [[nodiscard]] virtual std::int64_t plane_multiple() const { return 1; }

  [[nodiscard]] const BoxFieldLayout& layout() const { return layout_; }
  [[nodiscard]] std::int64_t channels() const { return channels_; }
  [[nodiscard]] std::int64_t size() const { return size_; }  // cells per edge

 protected:
  FieldSource(BoxFieldLayout layout, std::int64_t channels, std::int64_t size)
      : layout_(std::move(layout)), channels_(channels), size_(size) {}

 private:
  BoxFieldLayout layout_;
  std::int64_t channels_, size_;
};

// A regular file mapped into memory to be read. It must not shrink while it is mapped: the system
// ends a process that reads beyond the end.
class MappedFile {
 public:
  MappedFile() = default;
  // InputError when it can't be opened or is no regular file.
  explicit MappedFile(const std::filesystem::path& file);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Has the system read these bytes, which are in the file, without waiting for them.
  void read_ahead(std::int64_t offset, std::int64_t bytes) const;

  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
};

// Numbers in memory, channel first; which are there from the beginning, or from fill() on, before
// any thread reads them.
class MemorySource final : public FieldSource {
 public:
  MemorySource(std::int64_t channels, std::int64_t size) : FieldSource({}, channels, size) {}
  MemorySource(std::vector<float> values, std::int64_t channels, std::int64_t size);

  void fill(std::shared_ptr<const float> values) { values_ = std::move(values); }
  // Error where it is not filled.
  [[nodiscard]] FieldView view(const Region& region, std::vector<float>& scratch) const override;

 private:
  std::shared_ptr<const float> values_;
};

// Numbers that lie in a mapped file from `offset` on, channel first or, if `channel_last`, the
// channels of a cell side by side. The caller has checked that the file holds them.
[[nodiscard]] std::unique_ptr<FieldSource> make_mapped_source(std::shared_ptr<const MappedFile> map,
                                                              BoxFieldLayout layout,
                                                              std::int64_t offset,
                                                              std::int64_t channels,
                                                              std::int64_t size, bool channel_last);

// Numbers in chunks of a mapped file, each whole (also at the box's far edges) and as it is in
// memory; `offsets` of the chunks are in the order of their places in the field. Checked by the
// caller, too.
[[nodiscard]] std::unique_ptr<FieldSource> make_chunked_source(
    std::shared_ptr<const MappedFile> map, BoxFieldLayout layout, std::vector<std::int64_t> offsets,
    std::int64_t channels, std::int64_t size);

// What opening either format gives.
struct OpenBox {
  std::int64_t size = 0;
  std::array<std::unique_ptr<FieldSource>, 2> sources;  // as BoxField; null: not opened
  std::vector<std::string> warnings;
};
[[nodiscard]] OpenBox open_hdf5_box(const std::filesystem::path& file, BoxFields fields);
[[nodiscard]] OpenBox open_npy_box(const std::filesystem::path& prefix, BoxFields fields);
// Dark matter alone.
[[nodiscard]] OpenBox open_npy_file(const std::filesystem::path& file);

// "4, 128, 128, 128"
template <typename Integer>
[[nodiscard]] std::string shape_text(std::span<const Integer> shape) {
  std::string text;
  for (const auto dimension : shape) {
    if (!text.empty()) text += ", ";
    text += fmt::to_string(dimension);
  }
  return text;
}

// Error unless the region is inside a box of `size` cells per edge and `numbers` are its.
void require_region(const Region& region, std::int64_t size, std::int64_t channels,
                    std::size_t numbers);

// A box on its way to disk, some planes at a time. It appears with commit(), or not at all.
class BoxWriter {
 public:
  virtual ~BoxWriter() = default;
  // Planes first to first + count, [channels, count, N, N]; each field's in ascending order.
  virtual void write_planes(BoxField field, std::int64_t first, std::int64_t count,
                            std::span<const float> values) = 0;
  virtual void commit() = 0;
};

[[nodiscard]] std::unique_ptr<BoxWriter> make_npy_writer(const std::filesystem::path& prefix,
                                                         std::int64_t size);
class Hdf5Handle;
// Gives a new file, whose datasets are there, its attributes. `what` begins messages.
using AnnotateHdf5 = std::function<void(const Hdf5Handle& file, const std::string& what)>;
[[nodiscard]] std::unique_ptr<BoxWriter> make_hdf5_writer(const std::filesystem::path& file,
                                                          std::int64_t size, std::int64_t chunk,
                                                          const AnnotateHdf5& annotate);

// Fills `out` with planes first to first + count of a field, [channels, count, N, N].
using PlaneReader = std::function<void(BoxField field, std::int64_t first, std::int64_t count,
                                       std::span<float> out)>;

// Copies both fields plane by plane, `multiple` of them or a multiple of that at a time, and
// commits.
void write_box(BoxWriter& writer, std::int64_t size, std::int64_t multiple, const PlaneReader& read,
               const std::function<void(std::int64_t, std::int64_t)>& progress = {});

// How a crop is turned. `turns_velocity`: channels 1 to 3 are the components of a vector, v'_j =
// sum_i M_ij v_i; otherwise they are scalars like the others.
struct CropTurn {
  CubeSymmetry symmetry;
  bool turns_velocity = false;
};

// The lengths of a region that is turned.
[[nodiscard]] std::array<std::int64_t, 3> turned(const std::array<std::int64_t, 3>& extent,
                                                 const CubeSymmetry& symmetry);

// Writes a region, whose first cell the view points to, turned, as [channels, ...] of the lengths
// that turned() gives. `plane` is memory to work in, kept from call to call.
void copy_rotated(const FieldView& view, std::int64_t channels,
                  const std::array<std::int64_t, 3>& extent, const CropTurn& turn,
                  std::vector<float>& plane, float* out);

}  // namespace kolo
