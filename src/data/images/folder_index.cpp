#include "data/images/folder_index.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/data/image.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view expected_layout =
    "expected one folder for each class, with its images in it: ROOT/CLASS/IMAGE.jpg; kolo data "
    "images --from fashion-mnist -o DIR makes such folders, DIR/train and DIR/valid";

bool is_hidden(const fs::path& path) {
  return path.filename().native().starts_with('.');
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

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
    std::sort(names.begin(), names.end());
    return names;
  }

  // The paths of the images in a class's folder, below it, in order.
  std::vector<std::string> images(const std::string& name) {
    std::vector<std::string> found;
    const fs::path folder = root_ / name;
    collect(fs::is_symlink(folder) ? target_of(folder) : folder, {}, found);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  // `folder` is canonical; `prefix` is what to put before the names in it.
  void collect(const fs::path& folder, const std::string& prefix, std::vector<std::string>& found) {
    if (std::find(open_.begin(), open_.end(), folder) != open_.end()) {
      throw InputError(
          fmt::format("data: links go round in circles: {} leads back to itself; remove the link",
                      folder.string()));
    }
    open_.push_back(folder);
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (is_hidden(entry.path())) continue;
      const std::string name = prefix + entry.path().filename().native();
      const bool is_image = image_format_of_name(entry.path()).has_value();
      if (!is_image && !entry.is_directory()) continue;
      const auto target = entry.is_symlink() ? target_of(entry.path()) : entry.path();
      if (entry.is_directory()) {
        collect(target, name + '/', found);
      } else {
        check_image(entry);
        found.push_back(name);
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

  fs::path target_of(const fs::path& link) const {
    std::error_code error;
    const auto target = fs::canonical(link, error);
    if (error) {
      throw InputError(fmt::format("data: the link {} leads nowhere: {}; remove or mend it",
                                   link.string(), error.message()));
    }
    if (!is_within(target, root_)) {
      throw InputError(
          fmt::format("data: the link {} leads to {}, outside of {}; put the file itself there",
                      link.string(), target.string(), root_.string()));
    }
    return target;
  }

  fs::path root_;
  bool inspect_sizes_;
  std::vector<fs::path> open_;  // the folders that collect() is in
};

[[noreturn]] void fail_without_classes(const fs::path& root) {
  const auto is_image = [](const fs::directory_entry& entry) {
    return image_format_of_name(entry.path()).has_value();
  };
  const bool has_images = std::any_of(fs::directory_iterator(root), {}, is_image);
  throw InputError(fmt::format("data: {} has no classes: {}; {}", root.string(),
                               has_images ? "its images are not in folders" : "no folders in it",
                               expected_layout));
}

FolderIndex walk(const fs::path& root, std::int64_t most_classes, bool inspect_sizes) {
  FolderWalk folder(root, inspect_sizes);
  FolderIndex index;
  index.classes = folder.classes();
  if (index.classes.empty()) fail_without_classes(root);
  if (most_classes > 0 && std::cmp_less(most_classes, index.classes.size())) {
    index.classes.resize(static_cast<std::size_t>(most_classes));
  }
  for (const auto& name : index.classes) {
    const auto images = folder.images(name);
    if (images.empty()) {
      throw InputError(
          fmt::format("data: the class {} has no images in {}; add some (jpg, jpeg, png, bmp, "
                      "ppm, pgm) or remove the folder",
                      name, (root / name).string()));
    }
    for (const auto& image : images) {
      index.names += image;
      index.name_ends.push_back(index.names.size());
    }
    index.class_ends.push_back(index.size());
  }
  index.names.shrink_to_fit();
  index.name_ends.shrink_to_fit();
  return index;
}

}  // namespace

std::int64_t FolderIndex::label(std::int64_t index) const {
  return std::upper_bound(class_ends.begin(), class_ends.end(), index) - class_ends.begin();
}

std::string_view FolderIndex::name(std::int64_t index) const {
  const auto place = static_cast<std::size_t>(index);
  const auto begin = place == 0 ? 0 : name_ends[place - 1];
  return std::string_view(names).substr(begin, name_ends[place] - begin);
}

FolderIndex index_folder(const fs::path& root, std::int64_t most_classes, bool inspect_sizes) {
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    throw InputError(fmt::format("data: {} {}; {}", root.string(),
                                 fs::exists(root, error) ? "is not a folder" : "does not exist",
                                 expected_layout));
  }
  try {
    return walk(root, most_classes, inspect_sizes);
  } catch (const fs::filesystem_error& failure) {
    throw InputError(
        fmt::format("data: cannot go through the images in {}: {}", root.string(), failure.what()));
  }
}

}  // namespace kolo
