#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/data/dataset.h"
#include "kolo/data/folder_listing.h"
#include "kolo/data/image.h"
#include "kolo/data/random_crop.h"

namespace kolo {

template <typename Workspace>
class WorkspacePool;

struct ImageFolderOptions {
  std::int64_t height = 224, width = 224;  // what every image is resized to
  std::int64_t most_classes = 0;           // > 0: of the classes only the first so many
  // A file that is not of the kind that its name says is rejected; false: only its content counts.
  bool names_must_fit = true;
  // Look at every file's size at once, to find empty ones before training does. On a file system
  // where that takes too long: false.
  bool inspect_sizes = true;
  ImageLimits limits;
  // A sample is a part of its image that is drawn at random, another one in each epoch, instead of
  // the whole.
  std::optional<RandomCropOptions> random_crop = {};
  std::uint64_t seed = 1;  // of random_crop
};

// Images in a folder for each class, as ImageNet is laid out: ROOT/CLASS/**/IMAGE. Classes are
// numbered in the natural order of their folders' names (2 before 10), samples class by class,
// files in the natural order of their paths, at any depth. Links are followed, wherever they lead.
// Files whose names don't say jpg, jpeg, jfif, jpe or png are passed over and
// counted (listing().left_out), and what begins with a dot is passed over. Names are bytes; they
// need not be UTF-8.
//
// Inputs are {3, height, width}, pixels of 0..255, resized as decode_resized does (bilinear, where
// Keras's flow_from_directory takes the nearest pixel unless told otherwise). Nothing is decoded
// until it is read; the index takes about 25 bytes a file besides its name.
//
// Constructor: InputError for a root that is no folder, no classes, a class without images, an
// empty file, an image that is no regular file, links that lead nowhere or round in circles,
// options out of range. read(): InputError that names the file, for anything that is
// not the image it should be.
class ImageFolderDataset final : public Dataset {
 public:
  explicit ImageFolderDataset(const std::filesystem::path& root, ImageFolderOptions options = {});
  // Of what list_image_folder() has found, here or on another rank: no folder is gone through, only
  // the root is looked for. Of the options most_classes and inspect_sizes don't count.
  ImageFolderDataset(const std::filesystem::path& root, FolderListing listing,
                     ImageFolderOptions options);
  ~ImageFolderDataset() override;

  [[nodiscard]] std::int64_t size() const override { return listing_.size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const override;

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] const FolderListing& listing() const { return listing_; }
  // The folders' names, by class.
  [[nodiscard]] const std::vector<std::string>& class_names() const { return listing_.classes; }
  // The file and the class of a sample, 0 <= index < size().
  [[nodiscard]] std::filesystem::path path(std::int64_t index) const;
  [[nodiscard]] std::int64_t label(std::int64_t index) const { return listing_.label(index); }

 private:
  void set_up();

  std::filesystem::path root_;
  ImageFolderOptions options_;
  FolderListing listing_;
  SampleLayout layout_;
  std::unique_ptr<WorkspacePool<DecodeWorkspace>> workspaces_;
};

// InputError that names classes which only one of the two has, when there are any.
void require_same_classes(const ImageFolderDataset& training, const ImageFolderDataset& validation);

}  // namespace kolo
