#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kolo/data/array_file.h"
#include "kolo/data/box_files.h"

namespace kolo {

// Numbers in memory: element (channel, i, j, k) is at data[channel strides[0] + i strides[1] + j
// strides[2] + k strides[3]].
struct FieldView {
  const float* data = nullptr;
  std::array<std::int64_t, 4> strides{};
};

// One field of a box: a view of an array in a file, or of numbers in memory. Const functions may be
// called by any number of threads at once.
class FieldSource {
 public:
  // Takes an array of floating-point numbers of a field's shape, with the channels first or last.
  FieldSource(std::shared_ptr<const ArrayFile> array, bool is_channel_last);
  // Takes numbers in memory, channels first, given by fill() before any thread reads them.
  FieldSource(std::int64_t channels, std::int64_t size);
  void fill(std::shared_ptr<const float> values) { values_ = std::move(values); }

  // View of a region inside the box, of all channels: of the numbers where they lie, or of a copy
  // in `scratch`. Valid as long as the source and scratch are, unchanged. Error before fill();
  // InputError if the file can't be read, and for a finite number beyond float32's range.
  [[nodiscard]] FieldView view(const Region& region, std::vector<float>& scratch) const;
  // Planes of the first axis that one chunk has.
  [[nodiscard]] std::int64_t plane_multiple() const;

  [[nodiscard]] const ArrayFile& array() const { return *array_; }  // in a file
  [[nodiscard]] std::int64_t channels() const { return channels_; }
  [[nodiscard]] std::int64_t size() const { return size_; }  // cells per edge

 private:
  [[nodiscard]] ArrayRegion in_file(const Region& region) const;

  std::shared_ptr<const ArrayFile> array_;  // null: in memory
  bool is_channel_last_ = false;
  std::int64_t channels_, size_;
  std::shared_ptr<const float> values_;  // where numbers can be read where they lie
};

// Bytes of a field, or of both together. Error where they overflow 64 bits.
[[nodiscard]] std::int64_t field_bytes(std::int64_t channels, std::int64_t size);

// Error unless the region is inside a box of `size` cells per edge and `numbers` are its.
void require_region(const Region& region, std::int64_t size, std::int64_t channels,
                    std::size_t numbers);

// Turn of a crop. `turns_velocity`: channels 1 to 3 are the components of a vector, v'_j =
// sum_i M_ij v_i; otherwise they are scalars like the others.
struct CropTurn {
  CubeSymmetry symmetry;
  bool turns_velocity = false;
};

// The lengths of a region that is turned.
[[nodiscard]] std::array<std::int64_t, 3> turned(const std::array<std::int64_t, 3>& extent,
                                                 const CubeSymmetry& symmetry);

// Writes a region, whose first cell the view points to, turned, as [channels, turned() lengths].
// `plane` is memory to work in, kept from call to call.
void copy_rotated(const FieldView& view, std::int64_t channels,
                  const std::array<std::int64_t, 3>& extent, const CropTurn& turn,
                  std::vector<float>& plane, float* out);

}  // namespace kolo
