#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"
#include "kolo/base/file.h"

// JSON that may be anything: errors are in words of the file, not in those of the JSON library.
namespace kolo {

// A key that is missing or holds something else.
class JsonError : public Error {
 public:
  using Error::Error;
};

// Message of the JSON library's exception, without its name and number.
[[nodiscard]] inline std::string in_plain_words(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const auto end = text.find("] ");
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

template <typename T>
[[nodiscard]] constexpr std::string_view json_expectation() {
  if constexpr (std::same_as<T, bool>) return "true or false";
  if constexpr (std::integral<T>) return "a whole number";
  if constexpr (std::floating_point<T>) return "a number";
  return "a text";
}

// Whether it is of that kind and, of whole numbers, fits.
template <typename T, typename Json>
[[nodiscard]] bool json_holds(const Json& value) {
  if constexpr (std::same_as<T, bool>) {
    return value.is_boolean();
  } else if constexpr (std::integral<T>) {
    if (!value.is_number_integer()) return false;
    return value.is_number_unsigned() ? std::in_range<T>(value.template get<std::uint64_t>())
                                      : std::in_range<T>(value.template get<std::int64_t>());
  } else if constexpr (std::floating_point<T>) {
    return value.is_number();
  } else {
    return value.is_string();
  }
}

// Value of a key. JsonError: `the key "step" is missing`.
template <typename Json>
[[nodiscard]] const Json& json_member(const Json& object, const char* key) {
  if (!object.is_object()) {
    throw JsonError(fmt::format("expected an object with the key \"{}\", got {}", key,
                                object.is_primitive() ? object.dump() : object.type_name()));
  }
  const auto found = object.find(key);
  if (found == object.end()) throw JsonError(fmt::format("the key \"{}\" is missing", key));
  return *found;
}

[[noreturn]] inline void refuse_json(const char* key, std::string_view expected,
                                     const std::string& found) {
  throw JsonError(fmt::format("the key \"{}\": expected {}, got {}", key, expected,
                              found.size() > 80 ? found.substr(0, 80) + "..." : found));
}

// A list of an object.
template <typename Json>
[[nodiscard]] const Json& json_list(const Json& object, const char* key) {
  const auto& value = json_member(object, key);
  if (!value.is_array()) {
    refuse_json(key, "a list", value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return value;
}

// A number, a truth value or a text of an object. JsonError: `the key "step": expected a whole
// number, got null`.
template <typename T, typename Json>
[[nodiscard]] T json_value(const Json& object, const char* key) {
  const auto& value = json_member(object, key);
  if (!json_holds<T>(value)) {
    refuse_json(key, json_expectation<T>(),
                value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return value.template get<T>();
}

// The JSON in a file. InputError: "FILE:LINE: what is wrong", as for configurations. `advice`: what
// to do about it.
[[nodiscard]] inline nlohmann::ordered_json read_json_file(const std::filesystem::path& path,
                                                           std::string_view advice) {
  const std::string text = read_text_file(path);
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::ordered_json::parse_error& error) {
    const auto offset = static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    throw InputError(fmt::format(
        "{}:{}: {}; {}", path.string(), 1 + std::count(text.begin(), text.begin() + offset, '\n'),
        error.byte > text.size() ? "the file ends too early: it was cut off"
                                 : "the file is damaged here: expected JSON",
        advice));
  } catch (const nlohmann::ordered_json::exception& error) {  // a number like 1e400
    throw InputError(fmt::format("{}: {}; {}", path.string(), in_plain_words(error), advice));
  }
}

}  // namespace kolo
