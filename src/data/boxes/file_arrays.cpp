#include "data/boxes/file_arrays.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// Files hold little-endian numbers, which are used where they lie.
static_assert(std::endian::native == std::endian::little);

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (auto axis = shape.size(); axis-- > 0; step *= shape[axis]) strides[axis] = step;
  return strides;
}

std::int64_t number_at(const std::vector<std::int64_t>& position,
                       const std::vector<std::int64_t>& strides) {
  return std::inner_product(position.begin(), position.end(), strides.begin(), std::int64_t{0});
}

void read_at(int file, std::int64_t offset, std::span<std::byte> bytes, const std::string& name) {
  while (!bytes.empty()) {
    const auto count = ::pread(file, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw InputError(system_error_text(fmt::format("data: cannot read {}", name), errno));
    if (count == 0)
      throw InputError(fmt::format("data: {} became shorter while it was used", name));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

// Moves to a region's next position in C order, along its first `axes` axes. False after the last.
bool go_on(std::vector<std::int64_t>& position, const ArrayRegion& region, std::size_t axes) {
  for (auto axis = axes; axis-- > 0;) {
    if (++position[axis] < region.start[axis] + region.extent[axis]) return true;
    position[axis] = region.start[axis];
  }
  return false;
}

}  // namespace

PlainArray::PlainArray(std::string name, ArrayLayout layout, const NumberType& type,
                       std::int64_t offset)
    : ArrayFile(std::move(name), std::move(layout), type),
      offset_(offset),
      strides_(strides_of(this->layout().shape)) {
  const auto& file = this->layout().file;
  if (!this->layout().is_mapped) {
    file_ = open_input_file(file, "data");
    return;
  }
  map_ = map_file(file);
  if (map_.size - offset_ < rows() * row_numbers() * type.bytes)
    throw InputError(fmt::format("data: {} has changed while it was opened", file.string()));
}

const float* PlainArray::values() const {
  const bool is_plain = layout().is_mapped && type() == NumberType();
  // After headers of odd sizes no float can be read where it lies.
  if (!is_plain || offset_ % static_cast<std::int64_t>(alignof(float)) != 0) return nullptr;
  return reinterpret_cast<const float*>(map_.data.get() + offset_);
}

// The last axes, as far as the region has all of them, are read in one go.
void PlainArray::read_bytes(const ArrayRegion& region, std::span<std::byte> bytes) const {
  const auto& extent = region.extent;
  const auto& shape = layout().shape;
  auto outer = shape.size();
  std::int64_t count = 1;
  while (outer > 0 && strides_[outer - 1] == count) {
    count *= extent[--outer];
    if (extent[outer] != shape[outer]) break;
  }
  const auto number_bytes = type().bytes;
  auto position = region.start;
  do {
    const auto from = offset_ + number_at(position, strides_) * number_bytes;
    const auto part = bytes.first(static_cast<std::size_t>(count * number_bytes));
    if (!layout().is_mapped)
      read_at(file_.get(), from, part, name());
    else
      std::memcpy(part.data(), map_.data.get() + from, part.size());
    bytes = bytes.subspan(part.size());
  } while (go_on(position, region, outer));
}

MappedFile map_file(const std::filesystem::path& file) {
  const auto descriptor = open_input_file(file, "data");
  const auto size = size_in_bytes(descriptor, file);
  if (size == 0) return {};
  const auto length = narrow<std::size_t>(size);
  void* const memory = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (memory == MAP_FAILED) {
    throw Error(system_error_text(
        fmt::format("data: cannot map {} ({} bytes) into memory", file.string(), size), errno));
  }
  // Unmapping fails for no address that mmap() gave.
  return {{static_cast<const std::byte*>(memory),
           [memory, length](const std::byte*) { static_cast<void>(::munmap(memory, length)); }},
          size};
}

}  // namespace kolo
