#include <array>
#include <utility>

#include <fmt/format.h>

#include "data/boxes/hdf5_field.h"
#include "data/boxes/number_array.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// NumPy's name of the type that a dataset is read as; empty: it holds no numbers.
std::string type_of(hid_t type) {
  const auto bytes = H5Tget_size(type);
  const bool is_signed = H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_2;
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return bytes == 8 ? "<f8" : bytes <= 4 ? "<f4" : "";
    case H5T_INTEGER:
      if (bytes == 1) return is_signed ? "|i1" : "|u1";
      if (bytes == 2) return is_signed ? "<i2" : "<u2";
      if (bytes == 4) return is_signed ? "<i4" : "<u4";
      return is_signed ? "<i8" : "";
    default:
      return {};
  }
}

hid_t memory_type(const std::string& type) {
  if (type == "<f4") return H5T_NATIVE_FLOAT;
  if (type == "<f8") return H5T_NATIVE_DOUBLE;
  if (type == "|i1") return H5T_NATIVE_INT8;
  if (type == "|u1") return H5T_NATIVE_UINT8;
  if (type == "<i2") return H5T_NATIVE_INT16;
  if (type == "<u2") return H5T_NATIVE_UINT16;
  if (type == "<i4") return H5T_NATIVE_INT32;
  if (type == "<u4") return H5T_NATIVE_UINT32;
  return H5T_NATIVE_INT64;
}

class Hdf5Array final : public NumberArray {
 public:
  Hdf5Array(std::string name, std::string type, const std::vector<std::int64_t>& shape,
            Hdf5Handle file, Hdf5Handle dataset)
      : NumberArray(std::move(name), type, shape),
        memory_type_(type),
        whole_(shape),
        file_(std::move(file)),
        dataset_(std::move(dataset)) {}

 private:
  void read_samples(std::int64_t first, std::int64_t count,
                    std::span<std::byte> bytes) const override {
    const Hdf5Session session;
    const auto what = fmt::format("data: cannot read {}", this->name());
    std::vector<hsize_t> start(whole_.size(), 0), lengths(whole_.begin(), whole_.end());
    start[0] = static_cast<hsize_t>(first);
    lengths[0] = static_cast<hsize_t>(count);
    const auto rank = static_cast<int>(whole_.size());
    const Hdf5Handle there(H5Dget_space(dataset_.get()), H5Sclose, what);
    check_hdf5(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, start.data(), nullptr,
                                   lengths.data(), nullptr),
               what);
    const Hdf5Handle here(H5Screate_simple(rank, lengths.data(), nullptr), H5Sclose, what);
    check_hdf5(H5Dread(dataset_.get(), memory_type(memory_type_), here.get(), there.get(),
                       H5P_DEFAULT, bytes.data()),
               what);
  }

  std::string memory_type_;
  std::vector<std::int64_t> whole_;
  Hdf5Handle file_, dataset_;
};

}  // namespace

std::shared_ptr<const NumberArray> open_hdf5_array(const std::filesystem::path& path,
                                                   const std::string& dataset) {
  const Hdf5Session session;
  const auto name = fmt::format("{}: {}", path.string(), dataset);
  const auto what = fmt::format("data: cannot read {}", name);
  const auto refuse = [&](const std::string& found) {
    throw InputError(fmt::format("{}: {}", what, found));
  };
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id < 0)
    throw InputError(
        fmt::format("data: cannot read {} as HDF5: {}", path.string(), hdf5_error_text()));
  Hdf5Handle file(id, H5Fclose, what);
  if (H5Lexists(file.get(), dataset.c_str(), H5P_DEFAULT) <= 0) return nullptr;
  const hid_t object = H5Dopen2(file.get(), dataset.c_str(), H5P_DEFAULT);
  if (object < 0) refuse("it is no dataset");
  Hdf5Handle values(object, H5Dclose, what);
  const Hdf5Handle type(H5Dget_type(values.get()), H5Tclose, what);
  const auto type_name = type_of(type.get());
  if (type_name.empty())
    refuse("its numbers are of a type that can't be read; expected floating-point or whole ones");
  const Hdf5Handle space(H5Dget_space(values.get()), H5Sclose, what);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  check_hdf5(rank, what);
  std::vector<hsize_t> lengths(static_cast<std::size_t>(rank));
  if (rank > 0) check_hdf5(H5Sget_simple_extent_dims(space.get(), lengths.data(), nullptr), what);
  std::vector<std::int64_t> shape;
  for (const auto length : lengths) shape.push_back(narrow<std::int64_t>(length));
  return std::make_shared<Hdf5Array>(name, type_name, shape, std::move(file), std::move(values));
}

}  // namespace kolo
