#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/error.h"
#include "kolo/base/text.h"

// Enums by name. The names of an enum's values stand beside it, in a function of its namespace:
//
//   enum class Scaling { none, linear, sqrt };
//   constexpr auto enum_names(Scaling) {
//     return std::to_array<EnumName<Scaling>>({{Scaling::none, "none"}, ...});
//   }
//
// A value may have several names: the first is printed, all are understood.
namespace kolo {

template <typename E>
struct EnumName {
  E value;
  std::string_view name;
};

template <typename E>
concept NamedEnum = requires(E value) {
  enum_names(value);
};

// All names, further ones of the same value too.
template <NamedEnum E>
[[nodiscard]] std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const auto& each : enum_names(E{})) names.emplace_back(each.name);
  return names;
}

template <NamedEnum E>
[[nodiscard]] constexpr std::string_view name_of(E value) {
  for (const auto& each : enum_names(E{}))
    if (each.value == value) return each.name;
  return {};
}

// The value of that name, in small letters; none for any other.
template <NamedEnum E>
[[nodiscard]] constexpr std::optional<E> find_named(std::string_view name) {
  for (const auto& each : enum_names(E{}))
    if (each.name == name) return each.value;
  return std::nullopt;
}

// InputError for a name that is none: "precision: unknown precision "fp8", expected one of fp32,
// bf16, fp16".
template <NamedEnum E>
[[nodiscard]] E named(std::string_view subject, std::string_view what, std::string_view name) {
  if (const auto value = find_named<E>(name)) return *value;
  const auto known = known_names<E>();
  const auto near = nearest(name, known);
  throw InputError(std::string(subject) + ": unknown " + std::string(what) + " " + quote(name) +
                   ", expected one of " + join(known) +
                   (near.empty() ? "" : "; did you mean " + quote(near) + "?"));
}

}  // namespace kolo
