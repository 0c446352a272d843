#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "kolo/data/box_files.h"

namespace kolo {

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
[[nodiscard]] std::unique_ptr<BoxWriter> make_hdf5_writer(
    const std::filesystem::path& file, std::int64_t size, std::int64_t chunk,
    std::span<const std::pair<std::string, double>> parameters);

// Fills `out` with planes first to first + count of a field, [channels, count, N, N].
using PlaneReader = std::function<void(BoxField field, std::int64_t first, std::int64_t count,
                                       std::span<float> out)>;

// Copies both fields plane by plane, `multiple` of them or a multiple of that at a time, and
// commits.
void write_box(BoxWriter& writer, std::int64_t size, std::int64_t multiple, const PlaneReader& read,
               const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace kolo
