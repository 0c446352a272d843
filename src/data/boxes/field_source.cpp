#include "data/boxes/field_source.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

// Files hold little-endian numbers, which are used where they lie.
static_assert(std::endian::native == std::endian::little);

constexpr auto number_bytes = static_cast<std::int64_t>(sizeof(float));

using Strides = std::array<std::int64_t, 4>;  // of channel and three axes, in numbers

Strides strides_of(std::int64_t channels, std::int64_t size, bool channel_last) {
  if (channel_last) return {1, size * size * channels, size * channels, channels};
  return {size * size * size, size * size, size, 1};
}

Strides strides_of(const Region& region) {
  const auto& extent = region.extent;
  return {region.cells(), extent[1] * extent[2], extent[2], 1};
}

std::int64_t place_of(const std::array<std::int64_t, 3>& cell, const Strides& strides) {
  return cell[0] * strides[1] + cell[1] * strides[2] + cell[2] * strides[3];
}

class MappedSource final : public FieldSource {
 public:
  MappedSource(std::shared_ptr<const MappedFile> map, BoxFieldLayout layout, std::int64_t offset,
               std::int64_t channels, std::int64_t size, bool channel_last)
      : FieldSource(std::move(layout), channels, size),
        map_(std::move(map)),
        offset_(offset),
        strides_(strides_of(channels, size, channel_last)) {}

  FieldView view(const Region& region, std::vector<float>& scratch) const override {
    const auto* const first =
        map_->data() + offset_ + place_of(region.start, strides_) * number_bytes;
    if (offset_ % alignof(float) == 0) return {reinterpret_cast<const float*>(first), strides_};
    return copy(first, region, scratch);
  }

  // Rows that are at most some pages apart in one go: the gaps cost less than a question each.
  void announce(const Region& region) const override {
    constexpr std::int64_t near = 16384;
    const auto& extent = region.extent;
    const bool has_near_rows = strides_[2] * number_bytes <= near;
    const std::int64_t rows = has_near_rows ? 1 : extent[1];
    const std::array last{std::int64_t{0}, has_near_rows ? extent[1] - 1 : 0, extent[2] - 1};
    // Of channels that lie side by side the last one's number ends a cell.
    const bool is_channel_last = strides_[0] == 1;
    const auto span = place_of(last, strides_) + (is_channel_last ? channels() : 1);
    for (std::int64_t channel = 0; channel < (is_channel_last ? 1 : channels()); ++channel) {
      for (std::int64_t i = 0; i < extent[0]; ++i) {
        for (std::int64_t j = 0; j < rows; ++j) {
          const auto first = channel * strides_[0] + place_of(region.start, strides_) +
                             place_of({i, j, 0}, strides_);
          map_->read_ahead(offset_ + first * number_bytes, span * number_bytes);
        }
      }
    }
  }

 private:
  // For headers of odd sizes, after which no float can be read where it lies.
  FieldView copy(const std::byte* first, const Region& region, std::vector<float>& scratch) const {
    const auto to = strides_of(region);
    scratch.resize(static_cast<std::size_t>(channels() * region.cells()));
    for (std::int64_t channel = 0; channel < channels(); ++channel) {
      for (std::int64_t i = 0; i < region.extent[0]; ++i) {
        for (std::int64_t j = 0; j < region.extent[1]; ++j) {
          for (std::int64_t k = 0; k < region.extent[2]; ++k) {
            const auto from = channel * strides_[0] + place_of({i, j, k}, strides_);
            std::memcpy(scratch.data() + channel * to[0] + place_of({i, j, k}, to),
                        first + from * number_bytes, sizeof(float));
          }
        }
      }
    }
    return {scratch.data(), to};
  }

  std::shared_ptr<const MappedFile> map_;
  std::int64_t offset_;
  Strides strides_;
};

class ChunkedSource final : public FieldSource {
 public:
  ChunkedSource(std::shared_ptr<const MappedFile> map, BoxFieldLayout layout,
                std::vector<std::int64_t> offsets, std::int64_t channels, std::int64_t size)
      : FieldSource(std::move(layout), channels, size),
        map_(std::move(map)),
        offsets_(std::move(offsets)) {
    std::copy_n(this->layout().chunk.begin(), 4, chunk_.begin());
    for (std::size_t axis = 1; axis < 4; ++axis) {
      counts_[axis] = (size + chunk_[axis] - 1) / chunk_[axis];
    }
  }

  FieldView view(const Region& region, std::vector<float>& scratch) const override {
    scratch.resize(static_cast<std::size_t>(channels() * region.cells()));
    float* out = scratch.data();
    for (std::int64_t channel = 0; channel < channels(); ++channel) {
      for (std::int64_t i = 0; i < region.extent[0]; ++i) {
        for (std::int64_t j = 0; j < region.extent[1]; ++j, out += region.extent[2]) {
          copy_row({channel, region.start[0] + i, region.start[1] + j, region.start[2]},
                   region.extent[2], out);
        }
      }
    }
    return {scratch.data(), strides_of(region)};
  }

  // Whole chunks.
  void announce(const Region& region) const override {
    std::array<std::int64_t, 4> first{}, last{};
    for (std::size_t axis = 1; axis < 4; ++axis) {
      first[axis] = region.start[axis - 1] / chunk_[axis];
      last[axis] = (region.start[axis - 1] + region.extent[axis - 1] - 1) / chunk_[axis];
    }
    last[0] = (channels() - 1) / chunk_[0];
    constexpr std::int64_t most = 4 << 20;  // of larger ones a region needs a small part
    const auto bytes = chunk_[0] * chunk_[1] * chunk_[2] * chunk_[3] * number_bytes;
    if (bytes > most) return;
    for (std::int64_t c = 0; c <= last[0]; ++c) {
      for (std::int64_t i = first[1]; i <= last[1]; ++i) {
        for (std::int64_t j = first[2]; j <= last[2]; ++j) {
          for (std::int64_t k = first[3]; k <= last[3]; ++k) {
            const auto chunk = ((c * counts_[1] + i) * counts_[2] + j) * counts_[3] + k;
            map_->read_ahead(offsets_[static_cast<std::size_t>(chunk)], bytes);
          }
        }
      }
    }
  }

  std::int64_t plane_multiple() const override { return std::min(chunk_[1], size()); }

 private:
  void copy_row(std::array<std::int64_t, 4> cell, std::int64_t length, float* out) const {
    const auto end = cell[3] + length;
    while (cell[3] < end) {
      const auto inside = cell[3] % chunk_[3];
      const auto count = std::min(chunk_[3] - inside, end - cell[3]);
      std::int64_t chunk = 0, place = 0;
      for (std::size_t axis = 0; axis < 4; ++axis) {
        chunk = chunk * counts_[axis] + cell[axis] / chunk_[axis];
        place = place * chunk_[axis] + cell[axis] % chunk_[axis];
      }
      std::memcpy(out,
                  map_->data() + offsets_[static_cast<std::size_t>(chunk)] + place * number_bytes,
                  static_cast<std::size_t>(count) * sizeof(float));
      out += count;
      cell[3] += count;
    }
  }

  std::shared_ptr<const MappedFile> map_;
  std::vector<std::int64_t> offsets_;
  std::array<std::int64_t, 4> chunk_{};
  std::array<std::int64_t, 4> counts_{};  // chunks along each axis; the first one's is not used
};

}  // namespace

MemorySource::MemorySource(std::vector<float> values, std::int64_t channels, std::int64_t size)
    : FieldSource({}, channels, size) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  values_ = {owner, owner->data()};
}

FieldView MemorySource::view(const Region& region, std::vector<float>& /*scratch*/) const {
  if (!values_) throw Error("data: a simulation box is read before it has been loaded into memory");
  const auto strides = strides_of(channels(), size(), false);
  return {values_.get() + place_of(region.start, strides), strides};
}

std::unique_ptr<FieldSource> make_mapped_source(std::shared_ptr<const MappedFile> map,
                                                BoxFieldLayout layout, std::int64_t offset,
                                                std::int64_t channels, std::int64_t size,
                                                bool channel_last) {
  return std::make_unique<MappedSource>(std::move(map), std::move(layout), offset, channels, size,
                                        channel_last);
}

std::unique_ptr<FieldSource> make_chunked_source(std::shared_ptr<const MappedFile> map,
                                                 BoxFieldLayout layout,
                                                 std::vector<std::int64_t> offsets,
                                                 std::int64_t channels, std::int64_t size) {
  return std::make_unique<ChunkedSource>(std::move(map), std::move(layout), std::move(offsets),
                                         channels, size);
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
                  numbers, channels, shape_text(std::span<const std::int64_t>(extent)),
                  shape_text(std::span<const std::int64_t>(start)), size));
}

namespace {

FileDescriptor open_input(const std::filesystem::path& file) {
  try {
    return open_regular_file(file);
  } catch (const Error& error) {
    throw InputError(fmt::format("data: {}", error.what()));
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  const FileDescriptor descriptor = open_input(file);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) {
    throw Error(system_error_text(fmt::format("data: cannot inspect {}", file.string()), errno));
  }
  size_ = status.st_size;
  if (size_ == 0) return;
  void* const place =
      ::mmap(nullptr, narrow<std::size_t>(size_), PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (place == MAP_FAILED) {
    throw Error(system_error_text(
        fmt::format("data: cannot map {} ({} bytes) into memory", file.string(), size_), errno));
  }
  data_ = static_cast<const std::byte*>(place);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

// It is advice: where the system doesn't take it, the numbers are read when they are touched.
void MappedFile::read_ahead(std::int64_t offset, std::int64_t bytes) const {
  static const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = offset / page * page;
  static_cast<void>(::madvise(const_cast<std::byte*>(data_) + begin,
                              static_cast<std::size_t>(offset + bytes - begin), MADV_WILLNEED));
}

MappedFile::~MappedFile() {
  // Fails for no address that mmap() gave.
  if (data_ != nullptr)
    static_cast<void>(::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_)));
}

}  // namespace kolo
