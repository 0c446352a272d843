#include <algorithm>

#include <fmt/format.h>

#include "data/boxes/field_source.h"
#include "data/boxes/hdf5_field.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

Hdf5Handle open_file(const std::filesystem::path& path) {
  const auto what = fmt::format("data: cannot open {} as HDF5", path.string());
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what);
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
  if (id < 0) throw InputError(fmt::format("{}: {}", what, hdf5_error_text()));
  return {id, H5Fclose, what};
}

// Whether the file has bytes before HDF5's own, for which versions of the library count addresses
// differently.
bool has_user_block(const Hdf5Handle& file, const std::string& what) {
  const Hdf5Handle creation(H5Fget_create_plist(file.get()), H5Pclose, what);
  hsize_t bytes = 0;
  check_hdf5(H5Pget_userblock(creation.get(), &bytes), what);
  return bytes > 0;
}

// The attributes of the root that are single numbers.
std::vector<std::pair<std::string, double>> read_parameters(const Hdf5Handle& file,
                                                            const std::string& what) {
  struct Visit {
    std::vector<std::pair<std::string, double>> found;
    std::exception_ptr error;
  } visit;
  const auto read_one = [](hid_t root, const char* name, const H5A_info_t*, void* out) -> herr_t {
    auto& [found, error] = *static_cast<Visit*>(out);
    try {  // no exception may pass through the library
      const std::string problem = "data: an attribute";
      const Hdf5Handle attribute(H5Aopen(root, name, H5P_DEFAULT), H5Aclose, problem);
      const Hdf5Handle type(H5Aget_type(attribute.get()), H5Tclose, problem);
      const Hdf5Handle space(H5Aget_space(attribute.get()), H5Sclose, problem);
      const auto kind = H5Tget_class(type.get());
      if ((kind != H5T_FLOAT && kind != H5T_INTEGER) ||
          H5Sget_simple_extent_npoints(space.get()) != 1) {
        return 0;
      }
      double value = 0;
      check_hdf5(H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value), problem);
      found.emplace_back(name, value);
      return 0;
    } catch (...) {
      error = std::current_exception();
      return -1;
    }
  };
  hsize_t index = 0;
  const auto status = H5Aiterate2(file.get(), H5_INDEX_NAME, H5_ITER_INC, &index, read_one, &visit);
  if (visit.error) std::rethrow_exception(visit.error);
  check_hdf5(status, what);
  return std::move(visit.found);
}

// Why a field can't be read where it lies in the file.
std::string obstacle(const BoxFieldLayout& layout) {
  if (layout.type != "float32") {
    return fmt::format("is {} and converted to float32", layout.type);
  }
  if (layout.filters.empty()) return "does not lie in the file as it does in memory";
  std::string names;
  for (const auto& filter : layout.filters) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", filter);
  }
  return fmt::format("is packed ({})", names);
}

void warn(const BoxFieldLayout& layout, const char* name, std::vector<std::string>& warnings) {
  if (layout.is_mapped) return;
  warnings.push_back(
      fmt::format("data: {} of {} {}, so one thread at a time reads it; kolo data convert makes a "
                  "file that all threads read",
                  name, layout.file.string(), obstacle(layout)));
}

}  // namespace

OpenBox open_hdf5_box(const std::filesystem::path& path) {
  const auto what = fmt::format("data: cannot read {}", path.string());
  // First, since opening a pipe would wait for whoever writes to it.
  auto map = std::make_shared<const MappedFile>(path);
  OpenBox box;
  const Hdf5Session session;
  const auto file = open_file(path);
  const bool may_map = !has_user_block(file, what);
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
    const auto* const name = field == BoxField::nbody ? "Nbody" : "Hydro";
    const auto field_what = fmt::format("data: cannot read {} of {}", name, path.string());
    auto found = open_hdf5_field(file, path, field);
    const auto size = found.size;
    if (field == BoxField::hydro && size != box.size) {
      throw InputError(fmt::format("{}: it has {}^3 cells and Nbody {}^3, expected as many",
                                   field_what, size, box.size));
    }
    box.size = size;
    auto offsets =
        may_map ? find_numbers(found, map->size(), field_what) : std::vector<std::int64_t>{};
    found.layout.is_mapped = !offsets.empty();
    warn(found.layout, name, box.warnings);
    auto& source = box.sources[field == BoxField::hydro];
    const auto channels = channels_of(field);
    if (offsets.empty()) {
      source = make_library_source(std::move(found), channels);
    } else if (found.layout.chunk.empty()) {
      source = make_mapped_source(map, std::move(found.layout), offsets[0], channels, size, false);
    } else {
      source =
          make_chunked_source(map, std::move(found.layout), std::move(offsets), channels, size);
    }
  }
  box.parameters = read_parameters(file, what);
  return box;
}

}  // namespace kolo
