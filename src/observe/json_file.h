#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace kolo {

// The JSON in a file. InputError: "FILE:LINE: what is wrong", as for configurations. `advice`: what
// to do about it.
[[nodiscard]] nlohmann::ordered_json read_json_file(const std::filesystem::path& path,
                                                    std::string_view advice);

}  // namespace kolo
