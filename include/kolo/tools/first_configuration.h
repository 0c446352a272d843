#pragma once

#include <filesystem>
#include <string>

namespace kolo {

struct FirstConfiguration {
  std::string seen;  // "200 images of 4 classes, 64 x 64 pixels"
  std::string yaml;  // with comments
};

// Writes a first configuration from a look at data: folders of images, MNIST's and CIFAR-10's
// files, arrays of .npy or HDF5, simulation boxes. `data` is a file or a folder, which may have
// its training and validation data in parts of such names (train, val); without the latter every
// fifth sample validates. Sizes, batch and epochs are fitted to the number of samples, so that a
// training takes about a minute. `file`: name of the configuration, for its comments. Relative
// paths stay relative. InputError for data of no such kind, and for arrays whose names don't tell
// inputs from targets.
[[nodiscard]] FirstConfiguration first_configuration(const std::filesystem::path& data,
                                                     const std::string& file);

}  // namespace kolo
