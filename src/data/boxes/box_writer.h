#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "data/boxes/hdf5.h"
#include "kolo/data/box_files.h"

namespace kolo {

// A box on its way to disk, some planes at a time. It appears with commit(), or not at all.
class BoxWriter {
 public:
  virtual ~BoxWriter() = default;
  // Planes first to first + count, [channels, count, N, N].
  virtual void write_planes(BoxField field, std::int64_t first, std::int64_t count,
                            std::span<const float> values) = 0;
  virtual void commit() = 0;
};

[[nodiscard]] std::unique_ptr<BoxWriter> make_npy_writer(const std::filesystem::path& prefix,
                                                         std::int64_t size);
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

// The dataset of a field.
[[nodiscard]] constexpr const char* hdf5_name_of(BoxField field) {
  return field == BoxField::nbody ? "Nbody" : "Hydro";
}

// A new file, in place of what is there. Needs an Hdf5Session, as does the function below.
[[nodiscard]] Hdf5Handle create_hdf5_file(const std::filesystem::path& path,
                                          const std::string& what);

struct NewHdf5Field {
  BoxField field = BoxField::hydro;
  std::int64_t size = 0;           // cells per edge
  std::int64_t chunk = 0;          // as for write_box_hdf5
  bool has_place_at_once = false;  // in the file, before numbers are written
};
[[nodiscard]] Hdf5Handle create_hdf5_field(const Hdf5Handle& file, const NewHdf5Field& field,
                                           const std::string& what);

}  // namespace kolo
