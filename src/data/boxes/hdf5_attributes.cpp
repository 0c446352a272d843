#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/boxes/hdf5.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

const std::string root_name = "/";

std::vector<std::string> attributes_of(const Hdf5Handle& object, const std::string& what) {
  std::vector<std::string> names;
  check_hdf5(H5Aiterate2(object.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_hdf5_name, &names),
             what);
  return names;
}

Hdf5Handle open_object(const Hdf5Handle& file, const std::string& name, const std::string& what) {
  return {H5Oopen(file.get(), name.c_str(), H5P_DEFAULT), H5Oclose, what};
}

// The root and the datasets in it that can be opened.
std::vector<std::string> owners_in(const Hdf5Handle& file, const std::string& what) {
  std::vector<std::string> owners{root_name};
  for (auto& name : names_in_root(file, what)) {
    const hid_t dataset = H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT);
    if (dataset < 0) continue;
    H5Dclose(dataset);
    owners.push_back(std::move(name));
  }
  return owners;
}

// "redshift", "Nbody.units"
std::string full_name(const std::string& owner, const std::string& attribute) {
  return owner == root_name ? attribute : owner + "." + attribute;
}

// An open attribute with its values as they lie in the file. Texts and rows of their own lengths
// are in memory of the library, which gets it back.
class Attribute {
 public:
  Attribute(const Hdf5Handle& object, const std::string& name, const std::string& what)
      : what_(what),
        attribute_(H5Aopen(object.get(), name.c_str(), H5P_DEFAULT), H5Aclose, what),
        stored_type_(H5Aget_type(attribute_.get()), H5Tclose, what),
        // A type that the file has a name for belongs to that file.
        type_(H5Tcopy(stored_type_.get()), H5Tclose, what),
        space_(H5Aget_space(attribute_.get()), H5Sclose, what) {
    const auto count = H5Sget_simple_extent_npoints(space_.get());
    check_hdf5(count < 0 ? -1 : 0, what);
    count_ = static_cast<std::size_t>(count);
    bytes_.resize(count_ * H5Tget_size(type_.get()));
    if (count_ > 0) check_hdf5(H5Aread(attribute_.get(), type_.get(), bytes_.data()), what);
  }
  Attribute(const Attribute&) = delete;
  Attribute& operator=(const Attribute&) = delete;
  ~Attribute() {
    if (count_ > 0) H5Dvlen_reclaim(type_.get(), space_.get(), H5P_DEFAULT, bytes_.data());
  }

  // Refers to objects of its file, or to parts of them.
  [[nodiscard]] bool has_references() const {
    return H5Tdetect_class(type_.get(), H5T_REFERENCE) > 0;
  }

  [[nodiscard]] Json json() const {
    const hid_t type = type_.get();
    const auto kind = H5Tget_class(type);
    const bool is_whole = kind == H5T_INTEGER && H5Tget_size(type) <= sizeof(std::int64_t);
    if (kind == H5T_FLOAT) return json_of(numbers<double>(H5T_NATIVE_DOUBLE));
    if (is_whole && H5Tget_sign(type) == H5T_SGN_NONE)
      return json_of(numbers<std::uint64_t>(H5T_NATIVE_UINT64));
    if (is_whole || kind == H5T_ENUM) return json_of(numbers<std::int64_t>(H5T_NATIVE_INT64));
    return kind == H5T_STRING ? json_of(texts()) : Json("neither numbers nor text");
  }

  void copy_to(const Hdf5Handle& object, const std::string& name) const {
    const Hdf5Handle creation(H5Aget_create_plist(attribute_.get()), H5Pclose, what_);
    Hdf5Handle copy(H5Acreate2(object.get(), name.c_str(), type_.get(), space_.get(),
                               creation.get(), H5P_DEFAULT),
                    H5Aclose, what_);
    if (count_ > 0) check_hdf5(H5Awrite(copy.get(), type_.get(), bytes_.data()), what_);
    copy.close(what_);
  }

 private:
  template <typename T>
  [[nodiscard]] Json json_of(const std::vector<T>& values) const {
    const bool is_single = H5Sget_simple_extent_type(space_.get()) == H5S_SCALAR;
    return is_single ? Json(values.front()) : Json(values);
  }

  template <typename T>
  [[nodiscard]] std::vector<T> numbers(hid_t memory_type) const {
    std::vector<T> values(count_);
    if (count_ > 0) check_hdf5(H5Aread(attribute_.get(), memory_type, values.data()), what_);
    return values;
  }

  // A text ends with a zero, or is as long as its type, filled with zeros or spaces.
  [[nodiscard]] std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    const auto length = H5Tget_size(type_.get());
    const bool has_own_length = H5Tis_variable_str(type_.get()) > 0;
    const bool has_spaces = H5Tget_strpad(type_.get()) == H5T_STR_SPACEPAD;
    for (std::size_t i = 0; i < count_; ++i) {
      const auto* const at = reinterpret_cast<const char*>(bytes_.data() + i * length);
      if (has_own_length) {
        const auto* const text = *reinterpret_cast<const char* const*>(at);
        texts.emplace_back(text == nullptr ? "" : text);
        continue;
      }
      auto& text = texts.emplace_back(at, std::find(at, at + length, '\0'));
      if (has_spaces) text.erase(text.find_last_not_of(' ') + 1);
    }
    return texts;
  }

  std::string what_;
  Hdf5Handle attribute_, stored_type_, type_, space_;
  std::size_t count_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace

Json read_hdf5_attributes(const std::filesystem::path& path) {
  const auto what = fmt::format("data: cannot read the attributes of {}", path.string());
  const Hdf5Session session;
  const auto file = open_hdf5_file(path);
  auto attributes = Json::object();
  for (const auto& owner : owners_in(file, what)) {
    const auto object = open_object(file, owner, what);
    for (const auto& name : attributes_of(object, what)) {
      const auto full = full_name(owner, name);
      attributes[full] = Attribute(object, name, fmt::format("{}: {}", what, full)).json();
    }
  }
  return attributes;
}

void copy_hdf5_attributes(const std::filesystem::path& from, const Hdf5Handle& to,
                          const std::string& what) {
  const auto problem = fmt::format("data: cannot read the attributes of {}", from.string());
  const auto file = open_hdf5_file(from);
  for (const auto& owner : owners_in(file, problem)) {
    if (owner != root_name && !has_hdf5_link(to, owner)) continue;
    const auto source = open_object(file, owner, problem), target = open_object(to, owner, what);
    for (const auto& name : attributes_of(source, problem)) {
      const Attribute attribute(
          source, name,
          fmt::format("{}: the attribute {} of {}", what, full_name(owner, name), from.string()));
      if (!attribute.has_references()) attribute.copy_to(target, name);
    }
  }
}

}  // namespace kolo
