#include "data/boxes/hdf5.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "data/boxes/file_arrays.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;  // one, as there is one library in a process
  return mutex;
}

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace

Hdf5Session::Hdf5Session() : lock_(library_mutex()) {
  if (H5Eget_auto2(H5E_DEFAULT, &print_, &print_to_) < 0 ||
      H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) {
    throw Error("data: cannot silence the HDF5 library");
  }
}

Hdf5Session::~Hdf5Session() {
  // Fails only where the constructor would have failed.
  static_cast<void>(H5Eset_auto2(H5E_DEFAULT, print_, print_to_));
}

std::string hdf5_error_text() {
  std::string text;
  const auto take = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    if (error->desc != nullptr && *error->desc != '\0') {
      *static_cast<std::string*>(out) = error->desc;
    }
    return 0;
  };
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, take, &text) < 0 || text.empty()) {
    return "the HDF5 library gives no reason";
  }
  // The system's reason stands among numbers that help nobody.
  constexpr std::string_view before = "error message = '";
  if (const auto begin = text.find(before); begin != text.npos) {
    const auto reason = text.substr(begin + before.size());
    return reason.substr(0, reason.find('\''));
  }
  return text;
}

Hdf5Handle::Hdf5Handle(hid_t id, herr_t (*closer)(hid_t), const std::string& what)
    : id_(id), close_(closer) {
  if (id < 0) throw Error(fmt::format("{}: {}", what, hdf5_error_text()));
}

Hdf5Handle::~Hdf5Handle() {
  if (id_ < 0) return;
  const Hdf5Session session;
  static_cast<void>(close_(id_));  // what was written is closed with close()
}

void Hdf5Handle::close(const std::string& what) {
  check_hdf5(close_(std::exchange(id_, H5I_INVALID_HID)), what);
}

void check_hdf5(herr_t status, const std::string& what) {
  if (status < 0) throw Error(fmt::format("{}: {}", what, hdf5_error_text()));
}

std::string hdf5_open_error() {
  auto text = hdf5_error_text();
  if (text.find("version number") == std::string::npos) return text;
  return fmt::format(
      "{}: it is stored as newer versions of HDF5 do, which this library ({}) can't read, or it is "
      "damaged; write it for older ones (h5py.File(..., libver=('earliest', 'v110')))",
      text, library_version());
}

Hdf5Handle open_hdf5_file(const std::filesystem::path& path) {
  const auto what = fmt::format("data: cannot open {} as HDF5", path.string());
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id < 0) throw InputError(fmt::format("{}: {}", what, hdf5_open_error()));
  return {id, H5Fclose, what};
}

bool has_hdf5_link(const Hdf5Handle& file, const std::string& name) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = name.find('/', end == 0 ? 1 : end + 1);
    if (H5Lexists(file.get(), name.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return true;
}

std::vector<std::string> names_in_root(const Hdf5Handle& file, const std::string& what) {
  std::vector<std::string> names;
  check_hdf5(H5Literate(file.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_hdf5_name, &names),
             what);
  return names;
}

namespace {

// Finds bytes before HDF5's own: versions of the library count addresses differently where a file
// has them.
bool has_user_block(const Hdf5Handle& file, const std::string& what) {
  const Hdf5Handle creation(H5Fget_create_plist(file.get()), H5Pclose, what);
  hsize_t bytes = 0;
  check_hdf5(H5Pget_userblock(creation.get(), &bytes), what);
  return bytes > 0;
}

// Offset of a contiguous dataset of float32 in its file, if it has a place there.
std::optional<std::int64_t> find_contiguous(const Hdf5Dataset& dataset, std::int64_t file_size) {
  const auto offset = H5Dget_offset(dataset.handle.get());
  if (offset == HADDR_UNDEF) return std::nullopt;
  const auto bytes =
      checked_multiply(checked_product(std::span<const std::int64_t>(dataset.layout.shape)),
                       static_cast<std::int64_t>(sizeof(float)));
  if (!std::in_range<std::int64_t>(offset) ||
      static_cast<std::int64_t>(offset) > file_size - bytes) {
    throw InputError(
        fmt::format("{}: truncated: its {} bytes begin at offset {}, the file has {} bytes",
                    dataset.what, bytes, offset, file_size));
  }
  return static_cast<std::int64_t>(offset);
}

// The array out of the file mapped into memory; null where its layout doesn't allow that.
std::shared_ptr<const ArrayFile> mapped_array(const std::string& name, const Hdf5Handle& file,
                                              const Hdf5Dataset& dataset) {
  auto layout = dataset.layout;
  const auto& shape = layout.shape;
  if (layout.type != "float32" || !layout.chunk.empty() || has_user_block(file, dataset.what) ||
      std::ranges::find(shape, std::int64_t{0}) != shape.end())
    return nullptr;
  const auto offset =
      find_contiguous(dataset, size_in_bytes(open_input_file(layout.file, "data"), layout.file));
  if (!offset) return nullptr;
  layout.is_mapped = true;
  return std::make_shared<PlainArray>(name, std::move(layout), NumberType(), *offset);
}

// Numbers that come through the library.
class LibraryArray final : public ArrayFile {
 public:
  LibraryArray(const std::string& name, Hdf5Handle file, Hdf5Dataset dataset, ArrayAccess access)
      : ArrayFile(name, dataset.layout, dataset.type),
        access_(access),
        file_(std::move(file)),
        dataset_(std::move(dataset)) {}

 private:
  void read_bytes(const ArrayRegion& region, std::span<std::byte> bytes) const override {
    const std::vector<hsize_t> start(region.start.begin(), region.start.end()),
        extent(region.extent.begin(), region.extent.end());
    const Hdf5Session session;
    const auto& what = dataset_.what;
    const Hdf5Handle there(H5Dget_space(dataset_.handle.get()), H5Sclose, what);
    if (!start.empty()) {
      check_hdf5(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, start.data(), nullptr,
                                     extent.data(), nullptr),
                 what);
    }
    const Hdf5Handle here(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
                          H5Sclose, what);
    if (H5Dread(dataset_.handle.get(), dataset_.memory_type, here.get(), there.get(), H5P_DEFAULT,
                bytes.data()) >= 0)
      return;
    const auto place = access_ == ArrayAccess::rows && !start.empty()
                           ? fmt::format("sample {}", start.front())
                           : fmt::format("at ({})", shape_text(region.start));
    throw InputError(fmt::format("{}, {}: {}", what, place, hdf5_error_text()));
  }

  ArrayAccess access_;
  Hdf5Handle file_;
  Hdf5Dataset dataset_;
};

}  // namespace

bool is_hdf5_file(const std::filesystem::path& path) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  const auto file = map_file(path);
  const auto expected = std::as_bytes(std::span(signature));
  // At 0, or after a user block at 512, 1024, 2048, ...
  for (std::size_t at = 0; at + expected.size() <= file.bytes().size(); at = at == 0 ? 512 : 2 * at)
    if (std::ranges::equal(expected, file.bytes().subspan(at, expected.size()))) return true;
  return false;
}

bool has_hdf5_array(const std::filesystem::path& path, const std::string& name) {
  const Hdf5Session session;
  return has_hdf5_link(open_hdf5_file(path), name);
}

std::vector<std::string> list_hdf5_arrays(const std::filesystem::path& path) {
  const Hdf5Session session;
  const auto file = open_hdf5_file(path);
  std::vector<std::string> names;
  check_hdf5(H5Lvisit(file.get(), H5_INDEX_NAME, H5_ITER_INC, add_hdf5_name, &names),
             fmt::format("data: cannot read {}", path.string()));
  std::erase_if(names, [&](const std::string& name) {
    const hid_t object = H5Oopen(file.get(), name.c_str(), H5P_DEFAULT);
    const bool is_group = object >= 0 && H5Iget_type(object) == H5I_GROUP;
    if (object >= 0) H5Oclose(object);
    return is_group;
  });
  std::ranges::sort(names, comes_before);
  return names;
}

std::shared_ptr<const ArrayFile> open_hdf5_array(const std::filesystem::path& path,
                                                 const std::string& name, ArrayAccess access) {
  const Hdf5Session session;
  auto file = open_hdf5_file(path);
  auto dataset = open_hdf5_dataset(file, path, name);
  const auto full_name = fmt::format("{} of {}", name, path.string());
  if (access == ArrayAccess::regions)
    if (auto mapped = mapped_array(full_name, file, dataset)) return mapped;
  return std::make_shared<LibraryArray>(full_name, std::move(file), std::move(dataset), access);
}

}  // namespace kolo
