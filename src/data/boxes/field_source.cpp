#include "data/boxes/field_source.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

using Extent3 = std::array<std::int64_t, 3>;

// Strides of the channel and the three axes, in numbers.
std::array<std::int64_t, 4> field_strides(std::int64_t channels, const Extent3& extent,
                                          bool is_channel_last) {
  const auto plane = extent[1] * extent[2];
  if (is_channel_last) return {1, plane * channels, extent[2] * channels, channels};
  return {extent[0] * plane, plane, extent[2], 1};
}

}  // namespace

FieldSource::FieldSource(std::shared_ptr<const ArrayFile> array, bool is_channel_last)
    : array_(std::move(array)),
      is_channel_last_(is_channel_last),
      channels_(array_->layout().shape.at(is_channel_last ? 3 : 0)),
      size_(array_->layout().shape.at(1)),
      values_(array_, array_->values()) {}

FieldSource::FieldSource(std::int64_t channels, std::int64_t size)
    : channels_(channels), size_(size) {}

FieldView FieldSource::view(const Region& region, std::vector<float>& scratch) const {
  if (values_) {
    const auto& start = region.start;
    const auto strides = field_strides(channels_, {size_, size_, size_}, is_channel_last_);
    return {values_.get() + start[0] * strides[1] + start[1] * strides[2] + start[2] * strides[3],
            strides};
  }
  if (!array_) throw Error("data: a simulation box is read before it has been loaded into memory");
  const auto& [start, extent] = region;
  scratch.resize(static_cast<std::size_t>(channels_ * region.cells()));
  if (const auto beyond = array_->read(in_file(region), scratch)) {
    const auto cell = is_channel_last_ ? *beyond / channels_ : *beyond % region.cells();
    throw InputError(
        fmt::format("data: {} holds a number beyond float32's range at cell ({}, {}, {})",
                    array_->name(), start[0] + cell / (extent[1] * extent[2]),
                    start[1] + cell / extent[2] % extent[1], start[2] + cell % extent[2]));
  }
  return {scratch.data(), field_strides(channels_, extent, is_channel_last_)};
}

std::int64_t FieldSource::plane_multiple() const {
  if (!array_ || array_->layout().chunk.empty()) return 1;
  return std::min(array_->layout().chunk[1], size_);
}

ArrayRegion FieldSource::in_file(const Region& region) const {
  ArrayRegion part{{region.start.begin(), region.start.end()},
                   {region.extent.begin(), region.extent.end()}};
  part.start.insert(is_channel_last_ ? part.start.end() : part.start.begin(), 0);
  part.extent.insert(is_channel_last_ ? part.extent.end() : part.extent.begin(), channels_);
  return part;
}

std::int64_t field_bytes(std::int64_t channels, std::int64_t size) {
  const std::array shape{channels, size, size, size, static_cast<std::int64_t>(sizeof(float))};
  return checked_product(std::span<const std::int64_t>(shape));
}

void require_region(const Region& region, std::int64_t size, std::int64_t channels,
                    std::size_t numbers) {
  const auto& [start, extent] = region;
  bool is_inside = true;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    is_inside =
        is_inside && start[axis] >= 0 && extent[axis] >= 1 && extent[axis] <= size - start[axis];
  }
  if (is_inside && std::cmp_equal(numbers, channels * region.cells())) return;
  throw Error(
      fmt::format("data: {} numbers for {} channels of ({}) cells from cell ({}) of a box "
                  "of {}^3",
                  numbers, channels, shape_text(extent), shape_text(start), size));
}

namespace {

std::array<CubeSymmetry, 48> make_group() {
  std::array<CubeSymmetry, 48> group;
  std::size_t count = 0;
  std::array<int, 3> axis{0, 1, 2};
  do {
    for (int mirrored = 0; mirrored < 8; ++mirrored) {
      CubeSymmetry symmetry{.axis = axis};
      for (std::size_t j = 0; j < 3; ++j) symmetry.sign[j] = (mirrored >> j & 1) == 0 ? 1 : -1;
      group[count++] = symmetry;
    }
  } while (std::next_permutation(axis.begin(), axis.end()));
  std::stable_partition(group.begin(), group.end(),
                        [](const CubeSymmetry& symmetry) { return symmetry.determinant() == 1; });
  return group;
}

// Turn of an array by the tutorial: its axes in this order, then backwards along those marked x.
struct Turn {
  std::array<int, 3> order;
  std::string_view backwards;
};

constexpr Turn tutorial_turns[] = {
    {{0, 1, 2}, "xx."}, {{0, 1, 2}, "x.x"}, {{0, 1, 2}, ".xx"},                      //
    {{1, 0, 2}, "x.."}, {{1, 0, 2}, "x.x"}, {{1, 0, 2}, ".x."}, {{1, 0, 2}, ".xx"},  //
    {{2, 1, 0}, "x.."}, {{2, 1, 0}, "xx."}, {{2, 1, 0}, "..x"}, {{2, 1, 0}, ".xx"},  //
    {{0, 2, 1}, ".x."}, {{0, 2, 1}, "xx."}, {{0, 2, 1}, "..x"}, {{0, 2, 1}, "x.x"},  //
    {{1, 2, 0}, "xx."}, {{1, 2, 0}, ".xx"}, {{1, 2, 0}, "x.x"}, {{1, 2, 0}, "xxx"},  //
    {{2, 0, 1}, "xx."}, {{2, 0, 1}, "x.x"}, {{2, 0, 1}, ".xx"}, {{2, 0, 1}, "xxx"},  //
    {{0, 1, 2}, "..."}};

std::array<CubeSymmetry, 24> make_tutorial_rotations() {
  std::array<CubeSymmetry, 24> rotations;
  std::transform(std::begin(tutorial_turns), std::end(tutorial_turns), rotations.begin(),
                 [](const Turn& turn) {
                   CubeSymmetry symmetry;
                   for (std::size_t i = 0; i < 3; ++i) {
                     const auto from = static_cast<std::size_t>(turn.order[i]);
                     symmetry.axis[from] = static_cast<int>(i);
                     symmetry.sign[from] = turn.backwards[i] == 'x' ? -1 : 1;
                   }
                   return symmetry;
                 });
  return rotations;
}

}  // namespace

int CubeSymmetry::determinant() const {
  const bool is_even = (axis[1] - axis[0] + 3) % 3 == 1;  // goes round: 012, 120, 201
  return (is_even ? 1 : -1) * sign[0] * sign[1] * sign[2];
}

const std::array<CubeSymmetry, 48>& cube_group() {
  static const auto group = make_group();
  return group;
}

const std::array<CubeSymmetry, 24>& tutorial_rotations() {
  static const auto rotations = make_tutorial_rotations();
  return rotations;
}

}  // namespace kolo
