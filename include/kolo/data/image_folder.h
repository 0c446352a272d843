#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/data/dataset.h"
#include "kolo/data/image.h"

namespace kolo {

// The image files below a root with a folder for each class: classes in the natural order of their
// folders' names (2 before 10), files class by class in the natural order of their paths. Names are
// bytes; they need not be UTF-8. Names end to end in one string take 8 bytes a file besides
// themselves, where a million small strings take three times the memory.
struct FolderListing {
  std::vector<std::string> classes;
  std::vector<std::int64_t> class_ends;  // where each class's files end
  std::string names;                     // below their class's folder
  std::vector<std::uint64_t> name_ends;
  // Files that are passed over because their names are of no image, and the first one's path.
  std::int64_t left_out = 0;
  std::string first_left_out;

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(name_ends.size()); }
  // Class of a file, 0 <= index < size(), and its path below its class's folder.
  [[nodiscard]] std::int64_t label(std::int64_t index) const;
  [[nodiscard]] std::string_view name(std::int64_t index) const;
  void add_class(const std::string& name, const std::vector<std::string>& files);
};

// Lists a folder of images, as ImageFolderDataset describes it. InputError as its constructor.
// `inspect_sizes` finds empty files, at the cost of a system call for each file.
[[nodiscard]] FolderListing list_image_folder(const std::filesystem::path& root,
                                              bool inspect_sizes = true);

// Lists an image file, or the images in a folder and the folders below it, as one class without a
// name; files are known by the endings of their names, but a file that is named itself. InputError
// as above, and where there are none.
[[nodiscard]] FolderListing list_images(const std::filesystem::path& path);

// "3 files left out, such as x/a.webp; kolo reads .jpg ..."; "" for none.
[[nodiscard]] std::string left_out_text(const FolderListing& listing);

struct ImageFolderOptions {
  std::int64_t height = 224, width = 224;  // what every image is resized to
  // Above 0: a sample is a part of its image of at least so much of the area, which is drawn at
  // random, another one in each epoch.
  double random_crop = 0;
  std::uint64_t seed = 1;  // of random_crop
  bool is_grey = false;    // inputs are {1, height, width}, the brightness
};

// Images in a folder for each class, as ImageNet is laid out: ROOT/CLASS/**/IMAGE. Classes and
// samples are numbered as in a FolderListing. Links are followed, wherever they lead. Files whose
// names don't say jpg, jpeg, jfif, jpe or png are passed over and counted (listing().left_out), and
// what begins with a dot is passed over.
//
// Inputs are {3, height, width}, pixels of 0..255, resized as decode_resized does. An image is
// decoded when it is read; the index takes about 25 bytes a file besides its name.
//
// Constructor: InputError for a root that is no folder, no classes, a class without images, an
// empty file, an image that is no regular file, links that lead nowhere or round in circles,
// options out of range. read(): InputError for a file that is not the image it should be.
class ImageFolderDataset final : public Dataset {
 public:
  // `inspect_sizes`: as for list_image_folder().
  explicit ImageFolderDataset(const std::filesystem::path& root, ImageFolderOptions options = {},
                              bool inspect_sizes = true);

  // Images of any names, all of class 0: see list_images().
  [[nodiscard]] static ImageFolderDataset without_classes(const std::filesystem::path& path,
                                                          ImageFolderOptions options);

  [[nodiscard]] std::int64_t size() const override { return listing_.size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override;

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] const FolderListing& listing() const { return listing_; }
  // The folders' names, by class.
  [[nodiscard]] const std::vector<std::string>& class_names() const { return listing_.classes; }
  // The file and the class of a sample, 0 <= index < size().
  [[nodiscard]] std::filesystem::path path(std::int64_t index) const;
  [[nodiscard]] std::int64_t label(std::int64_t index) const { return listing_.label(index); }

 private:
  ImageFolderDataset(std::filesystem::path root, FolderListing listing, ImageFolderOptions options);

  std::filesystem::path root_;
  ImageFolderOptions options_;
  FolderListing listing_;
  SampleLayout layout_;
};

// InputError that names classes which only one of the two has, when there are any.
void require_same_classes(const ImageFolderDataset& training, const ImageFolderDataset& validation);

}  // namespace kolo
