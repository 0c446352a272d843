#include "kolo/data/image_folder.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file_kind.h"
#include "kolo/base/text.h"

namespace kolo {

std::int64_t FolderListing::label(std::int64_t index) const {
  return std::upper_bound(class_ends.begin(), class_ends.end(), index) - class_ends.begin();
}

std::string_view FolderListing::name(std::int64_t index) const {
  const auto place = static_cast<std::size_t>(index);
  const auto begin = place == 0 ? 0 : name_ends[place - 1];
  return std::string_view(names).substr(begin, name_ends[place] - begin);
}

void FolderListing::add_class(const std::string& name, const std::vector<std::string>& files) {
  classes.push_back(name);
  for (const auto& file : files) {
    names += file;
    name_ends.push_back(names.size());
  }
  class_ends.push_back(size());
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view expected_layout =
    "expected one folder for each class, with its images in it: ROOT/CLASS/IMAGE.jpg; kolo data "
    "images --from fashion-mnist -o DIR makes such folders, DIR/train and DIR/valid";

bool is_hidden(const fs::path& path) {
  return path.filename().native().starts_with('.');
}

constexpr std::string_view read_names = ".jpg .jpeg .jfif .jpe .png";

class FolderWalk {
 public:
  FolderWalk(const fs::path& root, bool inspect_sizes)
      : root_(fs::canonical(root)), inspect_sizes_(inspect_sizes) {}

  std::vector<std::string> classes() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) {
      if (!is_hidden(entry.path()) && entry.is_directory()) {
        names.push_back(entry.path().filename().native());
      }
    }
    std::ranges::sort(names, comes_before);
    return names;
  }

  struct ClassFiles {
    std::vector<std::string> images;  // paths below the class's folder, in order
    std::vector<std::string> left_out;
  };

  ClassFiles files_of(const std::string& name) {
    ClassFiles found;
    const fs::path folder = root_ / name;
    collect(fs::is_symlink(folder) ? target_of(folder) : folder, {}, found);
    std::ranges::sort(found.images, comes_before);
    std::ranges::sort(found.left_out, comes_before);
    return found;
  }

 private:
  // Adds the files of a canonical folder, with `prefix` before their names.
  void collect(const fs::path& folder, const std::string& prefix, ClassFiles& found) {
    if (std::find(open_.begin(), open_.end(), folder) != open_.end()) {
      throw InputError(
          fmt::format("data: links go round in circles: {} leads back to itself; remove the link",
                      folder.string()));
    }
    open_.push_back(folder);
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (is_hidden(entry.path())) continue;
      const std::string name = prefix + entry.path().filename().native();
      if (!has_image_name(entry.path()) && !entry.is_directory()) {
        std::error_code ignored;  // links that lead nowhere are left out, too
        if (entry.is_regular_file(ignored)) found.left_out.push_back(name);
        continue;
      }
      const auto target = entry.is_symlink() ? target_of(entry.path()) : entry.path();
      if (entry.is_directory()) {
        collect(target, name + '/', found);
      } else {
        check_image(entry);
        found.images.push_back(name);
      }
    }
    open_.pop_back();
  }

  void check_image(const fs::directory_entry& entry) const {
    if (!entry.is_regular_file()) {
      throw InputError(fmt::format("data: {} is not a regular file; remove or rename it",
                                   entry.path().string()));
    }
    if (inspect_sizes_ && entry.file_size() == 0) {
      throw InputError(fmt::format("data: the image {} is empty; remove it or fetch it again",
                                   entry.path().string()));
    }
  }

  static fs::path target_of(const fs::path& link) {
    std::error_code error;
    const auto target = fs::canonical(link, error);
    if (error) {
      throw InputError(fmt::format("data: the link {} leads nowhere: {}; remove or mend it",
                                   link.string(), error.message()));
    }
    return target;
  }

  fs::path root_;
  bool inspect_sizes_;
  std::vector<fs::path> open_;  // the folders that collect() is in
};

[[noreturn]] void fail_without_classes(const fs::path& root) {
  const bool has_images = std::any_of(fs::directory_iterator(root), {}, has_image_name);
  throw InputError(fmt::format("data: {} has no classes: {}; {}", root.string(),
                               has_images ? "its images are not in folders" : "no folders in it",
                               expected_layout));
}

void note_left_out(FolderListing& listing, const fs::path& folder,
                   const std::vector<std::string>& left_out) {
  if (listing.left_out == 0 && !left_out.empty())
    listing.first_left_out = (folder / left_out.front()).string();
  listing.left_out += std::ssize(left_out);
}

FolderListing walk(const fs::path& root, bool inspect_sizes) {
  FolderWalk folder(root, inspect_sizes);
  const auto classes = folder.classes();
  if (classes.empty()) fail_without_classes(root);
  FolderListing listing;
  for (const auto& name : classes) {
    const auto [images, left_out] = folder.files_of(name);
    if (images.empty()) {
      throw InputError(fmt::format(
          "data: the class {} has no images in {}{}; add some ({}) or remove the folder", name,
          (root / name).string(), left_out.empty() ? "" : fmt::format(", but {}", left_out.front()),
          read_names));
    }
    note_left_out(listing, name, left_out);
    listing.add_class(name, images);
  }
  listing.names.shrink_to_fit();
  listing.name_ends.shrink_to_fit();
  return listing;
}

// Calls `list`; failures of the file system get words of kolo's.
template <typename List>
FolderListing listed(const fs::path& root, const List& list) {
  try {
    return list();
  } catch (const fs::filesystem_error& failure) {
    throw InputError(
        fmt::format("data: cannot go through the images in {}: {}", root.string(), failure.what()));
  }
}

}  // namespace

FolderListing list_image_folder(const fs::path& root, bool inspect_sizes) {
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    throw InputError(fmt::format(
        "data: {}; {}",
        fs::exists(root, error) ? root.string() + " is not a folder" : missing_path_text(root),
        expected_layout));
  }
  return listed(root, [&] { return walk(root, inspect_sizes); });
}

FolderListing list_images(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw InputError(fmt::format("data: {}", missing_path_text(path)));
  FolderListing listing;
  if (!fs::is_directory(path)) {
    listing.add_class({}, {path.filename().native()});
    return listing;
  }
  return listed(path, [&] {
    const auto [images, left_out] = FolderWalk(path, true).files_of({});
    if (images.empty()) {
      throw InputError(
          fmt::format("data: there are no images in {} and the folders below it; kolo reads {}",
                      path.string(), read_names));
    }
    note_left_out(listing, {}, left_out);
    listing.add_class({}, images);
    return listing;
  });
}

std::string left_out_text(const FolderListing& listing) {
  if (listing.left_out == 0) return {};
  return fmt::format("{} file{} left out, such as {}; kolo reads {}", listing.left_out,
                     listing.left_out == 1 ? "" : "s", listing.first_left_out, read_names);
}

}  // namespace kolo
