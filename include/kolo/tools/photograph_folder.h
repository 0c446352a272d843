#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "kolo/data/cifar10.h"
#include "kolo/tools/cifar10_stand_in.h"

// Folders of JPEG files laid out as ImageNet's, train/CLASS/*.jpg and valid/CLASS/*.jpg, made of
// small images: for trying and timing what reads such folders where ImageNet is not at hand.
namespace kolo {

// Images in CIFAR-10's form; both functions may be called from any thread.
struct SmallImages {
  std::int64_t size = 0;
  std::function<std::int64_t(std::int64_t index)> label;
  std::function<void(std::int64_t index, std::span<std::uint8_t> pixels)> pixels;  // 3072 bytes
};

// Those of a stand-in and of CIFAR-10, which must outlive what is returned.
[[nodiscard]] SmallImages small_images(const StandInImages& images);
[[nodiscard]] SmallImages small_images(const Cifar10Dataset& images);

struct PhotographFolderOptions {
  std::int64_t per_class = 100;  // training images of each class; a fifth of that for validation
  std::int64_t least_side = 160, most_side = 640;  // pixels; both sides are between
  std::uint64_t seed = 0;
};

// The folder of a class: "0_t_shirt_top" for label 0, "T-shirt/top"; sorted by name, the folders
// have their labels' order.
[[nodiscard]] std::string class_folder(std::int64_t label, std::string_view name);

// Writes `folder`, which appears only when everything is in it. Sizes, aspects and qualities vary,
// one file in twenty is grey, and fine texture makes the files about as large as photographs. What
// a file holds depends on images, options and its number alone, not on the threads. InputError for
// options out of range, too few images of a class, a folder that holds something already (with
// `replace`: something else than train and valid). Returns the numbers of training and of
// validation files.
std::array<std::int64_t, 2> write_photograph_folder(const std::filesystem::path& folder,
                                                    const SmallImages& training,
                                                    const SmallImages& validation,
                                                    std::span<const std::string> class_names,
                                                    const PhotographFolderOptions& options,
                                                    const WriteOptions& write);

}  // namespace kolo
