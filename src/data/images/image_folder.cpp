#include "kolo/data/image_folder.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/images/workspace_pool.h"
#include "kolo/base/error.h"
#include "kolo/data/image.h"

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

std::int64_t FolderIndex::label(std::int64_t index) const {
  return std::upper_bound(class_ends.begin(), class_ends.end(), index) - class_ends.begin();
}

std::string_view FolderIndex::name(std::int64_t index) const {
  const auto place = static_cast<std::size_t>(index);
  const auto begin = place == 0 ? 0 : name_ends[place - 1];
  return std::string_view(names).substr(begin, name_ends[place] - begin);
}

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

// Goes through the folders; errors as ImageFolderDataset's constructor has them. most_classes: 0
// for all.
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

void check_options(const ImageFolderOptions& options) {
  constexpr std::int64_t most_side = 16384;
  for (const auto& [name, side] : {std::pair{"height", options.height}, {"width", options.width}}) {
    if (side < 1 || side > most_side) {
      throw InputError(
          fmt::format("data: the {} of images is {}, expected 1 to {}", name, side, most_side));
    }
  }
  if (options.most_classes < 0) {
    throw InputError(fmt::format("data: the most classes to use are {}, expected 0 (all) or more",
                                 options.most_classes));
  }
}

void check_format(std::span<const std::byte> file, const std::filesystem::path& path) {
  const auto content = image_format_of_content(file), name = image_format_of_name(path);
  if (!content || content == name) return;  // what no decoder knows, decoding says better
  throw InputError(fmt::format(
      "data: {} is {} by its name but {} by its content; rename or replace it", path.string(),
      name ? image_format_name(*name) : "no image", image_format_name(*content)));
}

// "a, b, c and 5 more"
std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  const auto shown = std::min(names.size(), most);
  auto text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::vector<std::string> missing_from(const std::vector<std::string>& some,
                                      const std::vector<std::string>& others) {
  std::vector<std::string> missing;
  std::set_difference(others.begin(), others.end(), some.begin(), some.end(),
                      std::back_inserter(missing));
  return missing;
}

}  // namespace

ImageFolderDataset::ImageFolderDataset(const std::filesystem::path& root,
                                       ImageFolderOptions options)
    : root_(root), options_(options) {
  check_options(options_);
  if (options_.random_crop) options_.random_crop->check();
  index_ = std::make_unique<FolderIndex>(
      index_folder(root_, options_.most_classes, options_.inspect_sizes));
  layout_.input_shape = {3, options_.height, options_.width};
  layout_.classes = static_cast<std::int64_t>(index_->classes.size());
  workspaces_ = std::make_unique<WorkspacePool<DecodeWorkspace>>();
}

ImageFolderDataset::~ImageFolderDataset() = default;

std::int64_t ImageFolderDataset::size() const {
  return index_->size();
}

const std::vector<std::string>& ImageFolderDataset::class_names() const {
  return index_->classes;
}

std::filesystem::path ImageFolderDataset::path(std::int64_t index) const {
  return root_ / index_->classes[static_cast<std::size_t>(label(index))] / index_->name(index);
}

std::int64_t ImageFolderDataset::label(std::int64_t index) const {
  return index_->label(index);
}

void ImageFolderDataset::read(std::int64_t index, std::int64_t epoch,
                              const SamplePlace& place) const {
  check_read(index, place, static_cast<std::size_t>(layout_.input_size()), 1);
  const auto file = path(index);
  WorkspacePool<DecodeWorkspace>::Loan workspace(*workspaces_);
  read_image_file(file, workspace->file, options_.limits);
  if (options_.names_must_fit) check_format(workspace->file, file);
  if (options_.random_crop) {
    const auto choose = [&](std::int64_t height, std::int64_t width) {
      return draw_random_crop(*options_.random_crop, options_.seed, epoch, index, height, width);
    };
    decode_window(workspace->file, file.native(), choose, options_.height, options_.width,
                  place.input, *workspace, options_.limits);
  } else {
    decode_resized(workspace->file, file.native(), options_.height, options_.width, place.input,
                   *workspace, options_.limits);
  }
  place.label[0] = label(index);
}

void require_same_classes(const ImageFolderDataset& training,
                          const ImageFolderDataset& validation) {
  const auto check = [](const ImageFolderDataset& some, const ImageFolderDataset& others) {
    const auto missing = missing_from(some.class_names(), others.class_names());
    if (missing.empty()) return;
    throw InputError(fmt::format(
        "data: training and validation images must have the same classes: {} has no folder {}, "
        "which {} has",
        some.root().string(), first_few(missing), others.root().string()));
  };
  check(training, validation);
  check(validation, training);
}

}  // namespace kolo
