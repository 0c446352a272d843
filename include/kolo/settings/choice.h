#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "kolo/base/error.h"

// Choices of a configuration by name (an optimizer, a data set), each with keys of its own: an
// entry of a catalogue, in the room that makes it, with a name, a struct of settings and functions
// that know its type.
namespace kolo {

struct SettingCollector;
class SectionReader;
class TreeWriter;

// Settings of one choice: a struct of a type that only its entry knows, with value semantics.
class OwnSettings {
 public:
  // Holds the struct; made by set_settings() (src/settings/choice_reader.h).
  class Holder {
   public:
    virtual ~Holder() = default;
    [[nodiscard]] virtual std::unique_ptr<Holder> clone() const = 0;
    [[nodiscard]] virtual const std::type_info& type() const = 0;
    [[nodiscard]] virtual void* value() = 0;
    virtual void collect(SettingCollector& collector) = 0;
    virtual void read(SectionReader& reader) = 0;
    virtual void write(TreeWriter& writer) = 0;
  };

  OwnSettings() = default;
  explicit OwnSettings(std::unique_ptr<Holder> holder) : holder_(std::move(holder)) {}
  OwnSettings(const OwnSettings& other)
      : holder_(other.holder_ == nullptr ? nullptr : other.holder_->clone()) {}
  OwnSettings(OwnSettings&&) noexcept = default;
  OwnSettings& operator=(OwnSettings other) noexcept {
    holder_ = std::move(other.holder_);
    return *this;
  }
  ~OwnSettings() = default;

  [[nodiscard]] bool has_value() const { return holder_ != nullptr; }
  [[nodiscard]] Holder& holder() const { return *holder_; }

  // Error if it is a struct of another type.
  template <typename T>
  [[nodiscard]] const T& as() const {
    if (holder_ == nullptr || holder_->type() != typeid(T))
      throw Error("settings: a choice was given the settings of another one");
    return *static_cast<const T*>(holder_->value());
  }
  template <typename T>
  [[nodiscard]] T& as() {
    return const_cast<T&>(std::as_const(*this).template as<T>());
  }

 private:
  std::unique_ptr<Holder> holder_;
};

// Throws the InputError that a key's value is wrong, with its place: "momentum", "is too large".
using RefuseKey = std::function<void(std::string_view key, std::string_view reason)>;

// Members of the entries of all catalogues.
struct ChoiceEntry {
  std::string name;
  std::string description;  // one line
  OwnSettings defaults = {};
  // Checks combinations of keys, with the settings as they were given.
  std::function<void(const OwnSettings&, const RefuseKey&)> check = [](const OwnSettings&,
                                                                       const RefuseKey&) {};
  // Gives values to keys that were left open.
  std::function<void(OwnSettings&)> complete = [](OwnSettings&) {};
  std::vector<std::string> aliases = {};  // further names, which are understood but never printed

  // Settings, or the defaults for none, with values for all keys that were left open.
  [[nodiscard]] OwnSettings completed(OwnSettings own) const {
    if (!own.has_value()) own = defaults;
    complete(own);
    return own;
  }
};

}  // namespace kolo
