#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

// A YAML file's values by their dotted keys, in order: "optimizer.lr" is "0.001", lists of values
// are one ("[1, 2]"). Error, naming the file: it can't be read, is no YAML or nests without end.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> read_settings(
    const std::filesystem::path& path);

}  // namespace kolo
