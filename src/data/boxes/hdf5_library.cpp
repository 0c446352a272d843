#include "data/boxes/hdf5_library.h"

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;  // one, as there is one library in a process
  return mutex;
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

}  // namespace kolo
