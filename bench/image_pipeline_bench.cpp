// Times the input pipeline of ImageNet on one thread: reading, decoding, resizing, augmentation and
// preprocessing of JPEG files of 500 x 375 pixels.
//
//   image_pipeline_bench [--folder DIR] [--images 64] [--quality 90] [--side 224] [--passes 10]
//                        [--json]
//
// DIR/x/*.jpg are made unless DIR is there; without --folder they are made and removed again. Times
// are of the processor, so that they are those of a core even where others use the machine too.
// bench/peers/image_pipeline.py DIR times torchvision on the same files.
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"
#include "kolo/data/augmentation.h"
#include "kolo/data/image.h"
#include "kolo/data/image_folder.h"

namespace kolo {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder;
  int images = 64;
  int quality = 90;
  std::int64_t side = 224;
  int passes = 10;
  bool json = false;
};

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// An image of waves and grain, which packs into as many bytes as a photograph of its size.
Image make_photograph(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> frequency(.01, .08), grain(-14, 14);
  Image image{375, 500, {}};
  const double down = frequency(random), across = frequency(random), both = frequency(random);
  for (int y = 0; y < 375; ++y) {
    for (int x = 0; x < 500; ++x) {
      for (int c = 0; c < 3; ++c) {
        const double value = 128 + 50 * std::sin(across * x * (c + 1) + down * y) +
                             30 * std::sin(5 * both * x + 4 * down * y * (c + 1)) +
                             20 * std::sin(.05 * both * x * y) + grain(random);
        image.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0., 255.)));
      }
    }
  }
  return image;
}

void make_images(const fs::path& folder, const Options& options) {
  fs::create_directories(folder / "x");
  for (int i = 0; i < options.images; ++i) {
    const auto file = encode_jpeg(make_photograph(static_cast<unsigned>(i)), options.quality);
    std::ofstream(folder / "x" / fmt::format("{:04}.jpg", i), std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
  }
}

// A folder of images; removed at the end if it was made for this run only.
class ImageFolder {
 public:
  explicit ImageFolder(const Options& options) : is_temporary_(options.folder.empty()) {
    path_ = options.folder;
    if (is_temporary_) {
      std::string name = fs::temp_directory_path() / "kolo-images-XXXXXX";
      if (mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder");
      path_ = name;
    }
    if (!fs::exists(path_ / "x")) make_images(path_, options);
  }
  ImageFolder(const ImageFolder&) = delete;
  ImageFolder& operator=(const ImageFolder&) = delete;
  ~ImageFolder() {
    std::error_code ignored;
    if (is_temporary_) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  bool is_temporary_;
  fs::path path_;
};

// Processor seconds per image, in the fastest pass.
double seconds_an_image(const Dataset& dataset, int passes) {
  std::vector<float> input(static_cast<std::size_t>(dataset.layout().input_size()));
  std::int64_t label = 0;
  double fastest = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass <= passes; ++pass) {  // the first fills the caches
    const double begin = processor_seconds();
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      dataset.read(i, pass, {input, {&label, 1}, {}});
    }
    if (pass > 0) fastest = std::min(fastest, processor_seconds() - begin);
  }
  return fastest / static_cast<double>(dataset.size());
}

void run(const Options& options) {
  const ImageFolder folder(options);
  const auto images = std::make_shared<ImageFolderDataset>(
      folder.path(), ImageFolderOptions{options.side, options.side});
  std::uintmax_t bytes = 0;
  for (std::int64_t i = 0; i < images->size(); ++i) bytes += fs::file_size(images->path(i));

  const double decode = seconds_an_image(*images, options.passes);
  const AugmentedDataset training(images, {.33, .33, .5, 1.5, true}, Preprocessing::caffe(), 1);
  const double train = seconds_an_image(training, options.passes);
  const AugmentedDataset validation(images, {.zoom_low = .875, .zoom_high = .875},
                                    Preprocessing::caffe(), 1);
  const double validate = seconds_an_image(validation, options.passes);

  const auto kilobytes = static_cast<double>(bytes) / 1e3 / static_cast<double>(images->size());
  if (options.json) {
    std::cout << nlohmann::json{{"images", images->size()},
                                {"kilobytes_an_image", kilobytes},
                                {"side", options.side},
                                {"decode_and_resize_ms", 1e3 * decode},
                                {"training_ms", 1e3 * train},
                                {"validation_ms", 1e3 * validate},
                                {"training_images_a_second_and_core", 1 / train}}
                     .dump()
              << "\n";
    return;
  }
  std::cout << fmt::format("{} images of {:.0f} kB, to {} x {}, one core\n", images->size(),
                           kilobytes, options.side, options.side);
  for (const auto& [name, seconds] : {std::pair{"read, decode, resize", decode},
                                      {"training: and augment, preprocess", train},
                                      {"validation: and zoom, preprocess", validate}}) {
    std::cout << fmt::format("{:36} {:7.3f} ms  {:7.1f} images/s\n", name, 1e3 * seconds,
                             1 / seconds);
  }
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  kolo::Options options;
  CLI::App app("Times the input pipeline of ImageNet on one thread.");
  app.add_option("--folder", options.folder, "where the images are, or are to be made and kept");
  app.add_option("--images", options.images, "images to make")->check(CLI::Range(1, 100000));
  app.add_option("--quality", options.quality, "of JPEG")->check(CLI::Range(1, 100));
  app.add_option("--side", options.side, "pixels of the result, along each axis");
  app.add_option("--passes", options.passes, "over all images")->check(CLI::Range(1, 10000));
  app.add_flag("--json", options.json, "one JSON object on standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    kolo::run(options);
  } catch (const std::exception& error) {
    std::cerr << "image_pipeline_bench: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
