#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// The image files below a root with a folder for each class: names end to end in one string, for a
// million small strings of their own take three times the memory.
struct FolderIndex {
  std::vector<std::string> classes;      // bytewise order
  std::vector<std::int64_t> class_ends;  // where each class's files end
  std::string names;                     // below their class's folder
  std::vector<std::uint64_t> name_ends;

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(name_ends.size()); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const;
  [[nodiscard]] std::string_view name(std::int64_t index) const;
};

// Goes through the folders; errors as ImageFolderDataset's constructor has them. most_classes: 0
// for all.
[[nodiscard]] FolderIndex index_folder(const std::filesystem::path& root, std::int64_t most_classes,
                                       bool inspect_sizes);

}  // namespace kolo
