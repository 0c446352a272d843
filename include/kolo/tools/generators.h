#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/data/box_files.h"
#include "kolo/data/cifar10.h"
#include "kolo/data/dataset.h"
#include "kolo/data/mnist.h"

// Made data, for machines that can't get real data.
namespace kolo {

// Data in CIFAR-10's format and of about its difficulty, made from Fashion-MNIST: garments warped,
// coloured, on structured backgrounds, with distractors and occluders. A linear classifier gets 38
// % of the labels right (83 % of Fashion-MNIST's).

struct StandInOptions {
  std::filesystem::path source = fashion_mnist_folder;  // the four files of Fashion-MNIST
  std::uint64_t seed = 0;
  // The training split takes so many of each class, the first of the source's; at least 1. The
  // validation split takes all of the source's.
  std::int64_t per_class = 5000;
  // Things as one photographs them to be told apart: the garments that are clearest, which look
  // like the mean of their class and unlike those of others, alone, upright, as large as the
  // picture, on plain grounds. Both splits then have their garments class by class, the clearest
  // first.
  bool plain = false;
};

// The images of a split. Image `index` depends on the source, seed, split and index alone. Any
// number of threads may paint at once; one image takes about an eighth of a millisecond.
class StandInImages {
 public:
  // InputError for a source that MnistDataset rejects, images other than 28 x 28, fewer than
  // per_class images of a class.
  StandInImages(const StandInOptions& options, Split split);

  [[nodiscard]] std::int64_t size() const { return std::ssize(order_); }
  [[nodiscard]] std::uint8_t label(std::int64_t index) const;
  // Writes the 3072 bytes as CIFAR-10 has them: red, green and blue planes of 32 x 32.
  void paint(std::int64_t index, std::span<std::uint8_t> pixels) const;

 private:
  MnistDataset source_;
  std::vector<std::int64_t> order_;  // the source's image for each of ours
  std::uint64_t seed_;               // of the split
  bool plain_;
};

struct WriteOptions {
  int threads = 1;       // at least 1
  bool replace = false;  // a data set of this kind that is there already
  // Called now and then, from any of the threads, with the images done and all there will be.
  std::function<void(std::int64_t done, std::int64_t total)> progress = [](auto...) {};
};

// Writes both splits and the names into `folder`, which appears only when everything is in it. The
// files are the same for any number of threads. InputError when the folder holds something already
// (with `replace`: something else than a CIFAR-10). Returns the number of training and of
// validation images.
std::array<std::int64_t, 2> write_cifar10_stand_in(const std::filesystem::path& folder,
                                                   const StandInOptions& stand_in,
                                                   const WriteOptions& options);

struct PhotographFolderOptions {
  // `per_class` of the training images of each class, a fifth of that for validation.
  StandInOptions stand_in = {.per_class = 100, .plain = true};
  std::int64_t least_side = 160, most_side = 640;  // pixels; both sides are between
};

// Writes `folder`, which appears only when everything is in it: JPEG files laid out as ImageNet's,
// train/CLASS/*.jpg and valid/CLASS/*.jpg, of a stand-in's images, for trying and timing what reads
// such folders without ImageNet, and for pictures of one's own: twenty of a class can be learnt.
// Sizes, aspects and qualities vary, one file in twenty is grey, and fine texture makes the files
// about as large as photographs. What a file holds depends on options and its number alone, not on
// the threads. InputError for options out of range, too few images of a class, a folder that holds
// something already (with `replace`: something else than train and valid). Returns the numbers of
// training and of validation files.
std::array<std::int64_t, 2> write_photograph_folder(const std::filesystem::path& folder,
                                                    const PhotographFolderOptions& options,
                                                    const WriteOptions& write);

// Boxes of simulated universe, to train on without a simulation: dark matter grown from a Gaussian
// random field by gravity, and gas that follows it by simple physics.

struct CosmologyOptions {
  std::int64_t size = 128;  // cells an edge and particles an edge: even, 16 to 1024
  std::uint64_t seed = 1;   // at most 2^53
  std::int64_t crop = 0;    // cells an edge of the corner that is kept; 0: all
  int threads = 1;          // at least 1; the box is the same for any number, to the bit
};

// InputError for options out of their ranges.
void check_cosmology_options(const CosmologyOptions& options);

// Makes a periodic box at redshift 3, of cells of 78.125 comoving kpc/h: Om = .31, OL = .69, Ob =
// .0487, h = .675, n_s = .965, sigma8 = .82. It depends on the options alone, threads not among
// them; machines with other vector units, C libraries or versions of LibTorch may round otherwise.
// `progress`, if any, is called on the calling thread with the part done so far, 0 to 1, and the
// stage. InputError as above.
//
// Sources: Eisenstein and Hu 1998 (power spectrum without wiggles); Carroll, Press and Turner 1992
// (growth); Quinn et al. 1997 (kick-drift-kick); Gnedin and Hui 1998 and Hui and Gnedin 1997
// (pressure smoothing and temperature of intergalactic gas).
[[nodiscard]] SimulationBox make_cosmology_box(
    const CosmologyOptions& options,
    const std::function<void(double fraction, std::string_view phase)>& progress =
        [](double, std::string_view) {});

}  // namespace kolo
