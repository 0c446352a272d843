#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace kolo {

// Contents of a file or folder of data, told by the content, as `kolo data inspect --json` writes
// them: path, format, bytes, arrays (name, type, shape, chunk, filters, channels with their
// ranges), facts and advice. `reads_numbers`: also the ranges of large arrays, which takes reading
// all. InputError for what is no file of any format that is read, or a bad one.
[[nodiscard]] nlohmann::ordered_json inspect(const std::filesystem::path& path, bool reads_numbers);

}  // namespace kolo
