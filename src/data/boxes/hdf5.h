#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hdf5.h>

#include "kolo/data/array_file.h"
#include "kolo/data/box_files.h"

namespace kolo {

// Lock for all calls of the HDF5 library, which keeps tables of open objects, caches and an error
// stack for the whole process, and which Debian builds without locks of its own. The library is
// also kept from printing its errors, which come as exceptions instead.
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

// Last error of the library, in its words: the innermost cause.
[[nodiscard]] std::string hdf5_error_text();

// Owner of an identifier of the library. Error with `what` and the library's own words for an
// invalid one.
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
  // Closes, and reports errors of writing, which the library may do only now.
  void close(const std::string& what);

 private:
  hid_t id_ = H5I_INVALID_HID;
  herr_t (*close_)(hid_t) = nullptr;
};

// Throws Error with `what` and the library's own words for a negative status.
void check_hdf5(herr_t status, const std::string& what);

// Opens a file to be read; InputError if that fails. Needs an Hdf5Session, like all functions
// below.
[[nodiscard]] Hdf5Handle open_hdf5_file(const std::filesystem::path& path);

// Reason for which the library can't open something; versions that are too new for it, which it
// calls bad, are named.
[[nodiscard]] std::string hdf5_open_error();

// Looks for a name, which may have groups in it ("run/inputs").
[[nodiscard]] bool has_hdf5_link(const Hdf5Handle& file, const std::string& name);

// For the library's loops over names: adds one to a std::vector<std::string>. No exception may pass
// through the library.
template <typename Info>
herr_t add_hdf5_name(hid_t /*owner*/, const char* name, const Info* /*info*/, void* names) {
  try {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
  } catch (...) {
    return -1;
  }
}

// Names of all that is in a file's root. Error with `what`.
[[nodiscard]] std::vector<std::string> names_in_root(const Hdf5Handle& file,
                                                     const std::string& what);

// An open dataset of numbers.
struct Hdf5Dataset {
  Hdf5Handle handle;
  std::string what;  // "data: cannot read NAME of FILE", for messages
  ArrayLayout layout;
  NumberType type;                      // that the numbers are read as, and the same for HDF5:
  hid_t memory_type = H5I_INVALID_HID;  // a type of the library's own, which is not closed
};

// InputError as open_hdf5_array() has it. Needs an Hdf5Session.
[[nodiscard]] Hdf5Dataset open_hdf5_dataset(const Hdf5Handle& file,
                                            const std::filesystem::path& path,
                                            const std::string& name);

// Gives a new file's root, and its datasets that have the same name in `from`, their attributes
// with types, shapes and bytes as they are, but for those that refer to objects of the other file.
// Error with `what`: the library can't copy one.
void copy_hdf5_attributes(const std::filesystem::path& from, const Hdf5Handle& to,
                          const std::string& what);

// The dataset of a field.
[[nodiscard]] constexpr const char* hdf5_name_of(BoxField field) {
  return field == BoxField::nbody ? "Nbody" : "Hydro";
}

}  // namespace kolo
