#pragma once

#include <initializer_list>
#include <string_view>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "settings/value.h"

namespace kolo {

// How a check of a configuration refuses it: by an InputError that names the key and, from the tree
// it was read from, its place.
class Refusal {
 public:
  explicit Refusal(const ConfigValue& root) : root_(root) {}

  [[noreturn]] void fail(std::string_view key, std::string_view reason) const {
    throw InputError(fmt::format("{}: {}: {}", place_of(root_, key), key, reason));
  }

  // What can't be had together with a key that is set.
  struct Other {
    bool is_set;
    std::string_view key, why;
  };
  void refuse_together(std::string_view key, std::string_view value,
                       std::initializer_list<Other> others) const {
    for (const auto& other : others) {
      if (!other.is_set) continue;
      fail(key, fmt::format("{} can't be had with {}: {}; leave out one of the two", value,
                            other.key, other.why));
    }
  }

  [[nodiscard]] const ConfigValue& root() const { return root_; }

 private:
  const ConfigValue& root_;
};

}  // namespace kolo
