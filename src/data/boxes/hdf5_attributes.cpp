#include "data/boxes/hdf5_attributes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/boxes/hdf5.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

const std::string root_name = "/";

// The library's callbacks only gather names: no exception may pass through it.
std::vector<std::string> attributes_of(const Hdf5Handle& object, const std::string& what) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  hsize_t index = 0;
  check_hdf5(H5Aiterate2(object.get(), H5_INDEX_NAME, H5_ITER_INC, &index, add, &names), what);
  return names;
}

struct RootLink {
  std::string name;
  bool leads_out = false;  // into another file
};

std::vector<RootLink> links_of(const Hdf5Handle& file, const std::string& what) {
  std::vector<RootLink> links;
  const auto add = [](hid_t, const char* name, const H5L_info_t* info, void* to) -> herr_t {
    const bool leads_out = info->type != H5L_TYPE_HARD && info->type != H5L_TYPE_SOFT;
    static_cast<std::vector<RootLink>*>(to)->push_back({name, leads_out});
    return 0;
  };
  hsize_t index = 0;
  check_hdf5(H5Literate(file.get(), H5_INDEX_NAME, H5_ITER_INC, &index, add, &links), what);
  return links;
}

Hdf5Handle open_object(const Hdf5Handle& file, const std::string& name, const std::string& what) {
  return {H5Oopen(file.get(), name.c_str(), H5P_DEFAULT), H5Oclose, what};
}

// The root and the datasets in it that can be opened.
std::vector<std::string> owners_in(const Hdf5Handle& file, const std::string& what) {
  std::vector<std::string> owners{root_name};
  for (const auto& [name, leads_out] : links_of(file, what)) {
    const hid_t dataset =
        leads_out ? H5I_INVALID_HID : H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT);
    if (dataset < 0) continue;
    H5Dclose(dataset);
    owners.push_back(name);
  }
  return owners;
}

// "redshift", "Nbody.units"
std::string full_name(const std::string& owner, const std::string& attribute) {
  return owner == root_name ? attribute : owner + "." + attribute;
}

// An attribute that is open, with its values as they are in memory: what the library has allocated
// for texts and rows of their own lengths is given back to it.
class AttributeValues {
 public:
  AttributeValues(const Hdf5Handle& object, const std::string& name, const std::string& what)
      : what_(what),
        attribute_(H5Aopen(object.get(), name.c_str(), H5P_DEFAULT), H5Aclose, what),
        stored_type_(H5Aget_type(attribute_.get()), H5Tclose, what),
        // A type that the file has a name for belongs to that file.
        type_(H5Tcopy(stored_type_.get()), H5Tclose, what),
        space_(H5Aget_space(attribute_.get()), H5Sclose, what) {
    const auto count = H5Sget_simple_extent_npoints(space_.get());
    check_hdf5(count < 0 ? -1 : 0, what);
    count_ = static_cast<std::size_t>(count);
  }
  AttributeValues(const AttributeValues&) = delete;
  AttributeValues& operator=(const AttributeValues&) = delete;
  ~AttributeValues() {
    if (is_read_) H5Dvlen_reclaim(type_.get(), space_.get(), H5P_DEFAULT, bytes_.data());
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] bool is_single() const {
    return H5Sget_simple_extent_type(space_.get()) == H5S_SCALAR;
  }
  [[nodiscard]] const Hdf5Handle& type() const { return type_; }

  // Refers to objects of its file, or to parts of them.
  [[nodiscard]] bool has_references() const {
    return H5Tdetect_class(type_.get(), H5T_REFERENCE) > 0;
  }

  [[nodiscard]] const std::vector<std::byte>& bytes() {
    if (!is_read_) {
      bytes_.resize(count_ * H5Tget_size(type_.get()));
      if (count_ > 0) check_hdf5(H5Aread(attribute_.get(), type_.get(), bytes_.data()), what_);
      is_read_ = count_ > 0;
    }
    return bytes_;
  }

  template <typename T>
  [[nodiscard]] std::vector<T> as(hid_t memory_type) const {
    std::vector<T> values(count_);
    if (count_ > 0) check_hdf5(H5Aread(attribute_.get(), memory_type, values.data()), what_);
    return values;
  }

  void copy_to(const Hdf5Handle& object, const std::string& name, const std::string& what) {
    const Hdf5Handle creation(H5Aget_create_plist(attribute_.get()), H5Pclose, what);
    Hdf5Handle copy(H5Acreate2(object.get(), name.c_str(), type_.get(), space_.get(),
                               creation.get(), H5P_DEFAULT),
                    H5Aclose, what);
    if (count_ > 0) check_hdf5(H5Awrite(copy.get(), type_.get(), bytes().data()), what);
    copy.close(what);
  }

 private:
  std::string what_;
  Hdf5Handle attribute_, stored_type_, type_, space_;
  std::size_t count_ = 0;
  std::vector<std::byte> bytes_;
  bool is_read_ = false;
};

// Ends with a zero, or is as long as its type, filled with zeros or spaces.
std::vector<std::string> texts_of(AttributeValues& values) {
  std::vector<std::string> texts;
  const auto& bytes = values.bytes();
  const auto length = H5Tget_size(values.type().get());
  const bool has_own_length = H5Tis_variable_str(values.type().get()) > 0;
  const bool has_spaces = H5Tget_strpad(values.type().get()) == H5T_STR_SPACEPAD;
  for (std::size_t i = 0; i < values.count(); ++i) {
    const auto* const at = reinterpret_cast<const char*>(bytes.data() + i * length);
    if (has_own_length) {
      const auto* const text = *reinterpret_cast<const char* const*>(at);
      texts.emplace_back(text == nullptr ? "" : text);
      continue;
    }
    std::string text(at, std::find(at, at + length, '\0'));
    if (has_spaces) text.erase(text.find_last_not_of(' ') + 1);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::string kind_of(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_COMPOUND:
      return "a structure";
    case H5T_ARRAY:
      return "an array in each element";
    case H5T_VLEN:
      return "rows of different lengths";
    case H5T_REFERENCE:
      return "a reference";
    default:
      return fmt::format("{} raw bytes", H5Tget_size(type));
  }
}

Json read_attribute(const Hdf5Handle& object, const std::string& name, const std::string& what) {
  AttributeValues values(object, name, what);
  const auto json = [&](const auto& all) {
    return values.is_single() ? Json(all.front()) : Json(all);
  };
  const hid_t type = values.type().get();
  const auto kind = H5Tget_class(type);
  const bool is_whole = kind == H5T_INTEGER && H5Tget_size(type) <= sizeof(std::int64_t);
  if (kind == H5T_FLOAT) return json(values.as<double>(H5T_NATIVE_DOUBLE));
  if (is_whole && H5Tget_sign(type) == H5T_SGN_NONE)
    return json(values.as<std::uint64_t>(H5T_NATIVE_UINT64));
  if (is_whole || kind == H5T_ENUM) return json(values.as<std::int64_t>(H5T_NATIVE_INT64));
  return kind == H5T_STRING ? json(texts_of(values)) : Json(kind_of(type));
}

std::vector<std::string> sentence_on(const std::string& beginning,
                                     const std::vector<std::string>& names) {
  if (names.empty()) return {};
  return {fmt::format("{}: {}", beginning, fmt::join(names, ", "))};
}

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
      attributes[full] = read_attribute(object, name, fmt::format("{}: {}", what, full));
    }
  }
  return attributes;
}

std::vector<std::string> copy_hdf5_attributes(const std::filesystem::path& from,
                                              const Hdf5Handle& to, const std::string& what) {
  const auto problem = fmt::format("data: cannot read the attributes of {}", from.string());
  const auto file = open_hdf5_file(from);
  std::vector<std::string> references;
  for (const auto& owner : owners_in(file, problem)) {
    if (owner != root_name && !has_hdf5_link(to, owner)) continue;
    const auto source = open_object(file, owner, problem), target = open_object(to, owner, what);
    for (const auto& name : attributes_of(source, problem)) {
      const auto which =
          fmt::format("{}: the attribute {} of {}", what, full_name(owner, name), from.string());
      AttributeValues values(source, name, which);
      if (values.has_references())
        references.push_back(full_name(owner, name));
      else
        values.copy_to(target, name, which);
    }
  }
  return sentence_on(
      fmt::format("data: attributes of {} that refer to objects in it are left out", from.string()),
      references);
}

std::vector<std::string> leave_other_objects(const std::filesystem::path& from) {
  constexpr std::array fields{"Nbody", "Hydro"};
  const Hdf5Session session;
  const auto file = open_hdf5_file(from);
  std::vector<std::string> others;
  for (const auto& [name, leads_out] : links_of(file, from.string()))
    if (std::ranges::find(fields, name) == fields.end()) others.push_back(name);
  return sentence_on(
      fmt::format("data: {} holds more than a box, which is left out", from.string()), others);
}

std::vector<std::string> leave_hdf5_attributes(const std::filesystem::path& from) {
  std::vector<std::string> names;
  const auto attributes = read_hdf5_attributes(from);
  for (const auto& [name, value] : attributes.items()) names.push_back(name);
  return sentence_on(
      fmt::format("data: .npy files have no place for the attributes of {}", from.string()), names);
}

}  // namespace kolo
