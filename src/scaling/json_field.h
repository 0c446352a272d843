#pragma once

#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"

namespace kolo {

[[nodiscard]] inline const nlohmann::ordered_json& json_field(
    const nlohmann::ordered_json& document, std::string_view owner, const char* name) {
  if (!document.is_object()) {
    throw Error(
        fmt::format("scaling: {} is JSON {}, expected an object", owner, document.type_name()));
  }
  const auto found = document.find(name);
  if (found == document.end())
    throw Error(
        fmt::format("scaling: {} lacks \"{}\"; was it made by another version?", owner, name));
  return *found;
}

// A value of a type that JSON has, as To.
template <typename To>
[[nodiscard]] To read_field(const nlohmann::ordered_json& document, std::string_view owner,
                            const char* name) {
  const auto& value = json_field(document, owner, name);
  try {
    return value.get<To>();
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("scaling: \"{}\" of {} is {}, which is not of the type expected", name,
                            owner, value.dump()));
  }
}

}  // namespace kolo
