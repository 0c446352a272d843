#pragma once

#include <cmath>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/train/observe/history.h"

// Measurements in JSON, where they may be missing.
namespace kolo {

inline nlohmann::ordered_json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

inline double number_or_unmeasured(const nlohmann::ordered_json& json, const char* name) {
  const auto value = json.find(name);
  if (value == json.end() || value->is_null()) return not_measured;
  return json_value<double>(json, name);
}

// Document::read(): InputError that names the file and what to do with it. Those that can't be read
// name the line where there is one.
template <typename Document>
Document read_document(const std::filesystem::path& path, const char* advice) {
  const auto json = read_json_file(path, advice);
  try {
    return Document::from_json(json);
  } catch (const Error& error) {
    throw InputError(fmt::format("{}: {}; {}", path.string(), error.what(), advice));
  }
}

}  // namespace kolo
