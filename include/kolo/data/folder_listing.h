#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// The image files below a root with a folder for each class, as a value that one rank finds and
// tells the others: classes in the natural order of their folders' names (2 before 10), files class
// by class in the natural order of their paths. Names are bytes; they need not be UTF-8. Names end
// to end in one string take 8 bytes a file besides themselves, where a million small strings take
// three times the memory.
struct FolderListing {
  std::vector<std::string> classes;
  std::vector<std::int64_t> class_ends;  // where each class's files end
  std::string names;                     // below their class's folder
  std::vector<std::uint64_t> name_ends;
  // Counts of files that are passed over because their names are of no image, by the names' endings
  // (".webp"; "" for none).
  std::map<std::string, std::int64_t> left_out;

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(name_ends.size()); }
  // Of a file, 0 <= index < size(): its class, and its path below its class's folder.
  [[nodiscard]] std::int64_t label(std::int64_t index) const;
  [[nodiscard]] std::string_view name(std::int64_t index) const;
  void add_class(const std::string& name, const std::vector<std::string>& files);

  bool operator==(const FolderListing&) const = default;
};

struct FolderListingOptions {
  std::int64_t most_classes = 0;  // > 0: of the classes only the first so many
  // Ask for every file's size, to find empty ones: a question to the file system for each, where
  // the names of a folder's files come thousands at a time.
  bool inspect_sizes = true;
};

// Goes through a folder of images, as ImageFolderDataset describes it. InputError as its
// constructor.
[[nodiscard]] FolderListing list_image_folder(const std::filesystem::path& root,
                                              const FolderListingOptions& options = {});

// For other ranks, 4 bytes a file besides its name; and back. Error for bytes that are no listing.
[[nodiscard]] std::string to_bytes(const FolderListing& listing);
[[nodiscard]] FolderListing folder_listing_from(std::string_view bytes);

// "3 files left out: 2 .webp, 1 .gif; kolo reads .jpg ..."; "" for none.
[[nodiscard]] std::string left_out_text(const FolderListing& listing);

}  // namespace kolo
