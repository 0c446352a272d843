#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <utility>

#include <hdf5.h>

#include "data/boxes/field_source.h"

namespace kolo {

// Every call of the HDF5 library happens while one of these lives. The library keeps tables of open
// objects, caches and an error stack for the whole process, and Debian builds it without locks of
// its own, so two threads must not be inside it at once, whatever files they read. It is also kept
// from printing its errors, which come as exceptions instead.
class Hdf5Session {
 public:
  Hdf5Session();
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;
  ~Hdf5Session();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_to_ = nullptr;
};

// What the library says went wrong last, the innermost cause.
[[nodiscard]] std::string hdf5_error_text();

// An identifier that the library gave, closed at the end of its life. Throws Error with `what` and
// the library's own words when it gave none.
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, herr_t (*closer)(hid_t), const std::string& what);
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Handle();

  [[nodiscard]] hid_t get() const { return id_; }
  // Closes and reports what the library can write only now.
  void close(const std::string& what);

 private:
  hid_t id_ = H5I_INVALID_HID;
  herr_t (*close_)(hid_t) = nullptr;
};

// Throws Error with `what` and the library's own words for a negative status.
void check_hdf5(herr_t status, const std::string& what);

// A dataset of an HDF5 file that has been found to hold a field.
struct Hdf5Field {
  Hdf5Handle dataset;
  BoxFieldLayout layout;
  std::int64_t size = 0;   // cells per edge
  bool is_double = false;  // of more than 32 bits
};

// Opens "Nbody" or "Hydro" and checks all that section "Simulation boxes" of docs/data.md promises.
// InputError. Needs an Hdf5Session, as do the others here.
[[nodiscard]] Hdf5Field open_hdf5_field(const Hdf5Handle& file, const std::filesystem::path& path,
                                        BoxField field);

// Where the numbers are in the file, if they lie there as they are in memory: one offset for a
// contiguous layout, one a chunk for chunks without filters. Empty otherwise.
[[nodiscard]] std::vector<std::int64_t> find_numbers(const Hdf5Field& field, std::int64_t file_size,
                                                     const std::string& what);

// A new file, in place of what is there.
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

// An attribute of the root.
void write_hdf5_number(const Hdf5Handle& file, const std::string& name, double value,
                       const std::string& what);

// Reads through the library, one thread at a time.
[[nodiscard]] std::unique_ptr<FieldSource> make_library_source(Hdf5Field field,
                                                               std::int64_t channels);

}  // namespace kolo
