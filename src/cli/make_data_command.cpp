// kolo data cifar10 and images, sets of images that are made of others, and kolo data nbody.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/data/box_files.h"
#include "kolo/tools/generators.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/progress.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// Options that the commands share.
struct MakingArguments {
  std::string output;
  bool force = false;
};

void add_making_options(CLI::App& command, MakingArguments& arguments, std::uint64_t& seed) {
  add_number_option(command, "--seed N", seed, {0, std::uint64_t{1} << 53},
                    "Another number makes another data set")
      ->default_str(std::to_string(seed));
  command.add_flag("--force", arguments.force, "Replace existing files of this kind");
}

// Options of the sets of images.
struct ImagesArguments : MakingArguments {
  std::string source_kind;  // --from
  StandInOptions stand_in;
};

// Makes a data set by make(write) with a progress bar, and prints the numbers of training and
// validation images that it returns, in `words`.
template <typename Make>
int make_with_progress(const ImagesArguments& arguments, const char* words, Make make) {
  ProgressBar bar(std::cout, progress_options_from_environment());
  const Stopwatch watch;
  std::mutex mutex;
  std::int64_t most_done = -1;  // threads may report out of order
  const WriteOptions write{
      .threads = detect_cpu_limits().cpus(),
      .replace = arguments.force,
      .progress = [&](std::int64_t done, std::int64_t total) {
        const std::lock_guard lock(mutex);
        if (most_done < 0) bar.start("images", total, 0, "images");
        most_done = std::max(most_done, done);
        bar.update(most_done,
                   {.samples_per_second = static_cast<double>(most_done) / watch.seconds()});
      }};
  const auto [training, validation] = make(write);
  if (most_done >= 0) bar.clear();
  print_wrapped(fmt::format("{}: {}, {}\n", arguments.output,
                            fmt::format(fmt::runtime(words), format_count(training),
                                        format_count(validation), cifar10_classes),
                            format_duration(watch.seconds())));
  return 0;
}

// `per_class`: of --per-class.
void add_image_options(CLI::App& command, ImagesArguments& arguments, const char* per_class) {
  add_choice_option(command, "--from", arguments.source_kind, {"fashion-mnist"},
                    "What to make it of: fashion-mnist")
      ->required();
  add_text_option(command, "-o,--output DIR", arguments.output, "a folder", "The folder to make")
      ->required();
  add_text_option(command, "--source DIR", arguments.stand_in.source, "a folder",
                  "Folder with Fashion-MNIST");
  add_making_options(command, arguments, arguments.stand_in.seed);
  add_number_option(command, "--per-class N", arguments.stand_in.per_class, {1, 1000000}, per_class)
      ->default_str(std::to_string(arguments.stand_in.per_class));
}

int make_cifar10(const ImagesArguments& arguments) {
  return make_with_progress(arguments, "{} training and {} validation images in CIFAR-10's format",
                            [&](const WriteOptions& write) {
                              return write_cifar10_stand_in(arguments.output, arguments.stand_in,
                                                            write);
                            });
}

void add_cifar10_command(CLI::App& data, Chosen& chosen) {
  const auto [command, arguments] = add_command(
      data, chosen, "cifar10", "Make a stand-in for CIFAR-10, in its binary format", make_cifar10);
  add_image_options(*command, *arguments, "Training images of each class");
  command->footer(
      "Garments of Fashion-MNIST, moved, turned and coloured, on patterned backgrounds, with "
      "others behind them and blocks in front: about as hard as CIFAR-10, for machines that can't "
      "download it. The same seed makes the same files, with any number of threads. All of "
      "Fashion-MNIST's test images become the validation split.\n\n"
      "Example:\n"
      "  kolo data cifar10 --from fashion-mnist -o data/stand-in\n"
      "  kolo train configs/cifar10_cnn.yaml data.path=data/stand-in");
}

int make_images(const ImagesArguments& arguments) {
  const PhotographFolderOptions options{.stand_in = arguments.stand_in};
  return make_with_progress(arguments, "{} JPEG files in train/, {} in valid/, {} classes",
                            [&](const WriteOptions& write) {
                              return write_photograph_folder(arguments.output, options, write);
                            });
}

void add_images_command(CLI::App& data, Chosen& chosen) {
  const auto [command, arguments] = add_command(
      data, chosen, "images", "Make folders of JPEG files, laid out as ImageNet's", make_images);
  arguments->stand_in = PhotographFolderOptions().stand_in;
  add_image_options(*command, *arguments,
                    "Training images of each class; a fifth of that for validation");
  command->footer(
      "Makes train/CLASS/*.jpg and valid/CLASS/*.jpg: a garment on a plain ground, in varying "
      "sizes, aspects and colours, some grey. Twenty of each class are enough to learn them. The "
      "same seed makes the same files, with any number of threads.\n\n"
      "Example:\n"
      "  kolo data images --from fashion-mnist -o data/images --per-class 200");
}

struct NbodyArguments : MakingArguments {
  CosmologyOptions box;
};

void check_memory(std::int64_t size) {
  // Positions, velocities, forces, their modes, density and its modes, and what three transforms
  // take besides.
  constexpr std::uint64_t fields = 3 + 3 + 3 + 3 + 1 + 1 + 3;
  const auto cells = static_cast<std::uint64_t>(size * size * (size + 2));
  const auto needed = cells * fields * sizeof(double);
  const auto installed = installed_memory();
  if (!installed || std::cmp_less_equal(needed, *installed)) return;
  throw InputError(fmt::format("data: --size {} takes {} of memory, this machine has {}", size,
                               format_bytes(needed),
                               format_bytes(static_cast<std::uint64_t>(*installed))));
}

void check_file(const fs::path& file, bool force) {
  const auto status = fs::status(file);
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) {
    throw InputError(
        fmt::format("data: {} is there and no file; choose another --output", file.string()));
  }
  if (force) return;
  throw InputError(
      fmt::format("data: {} is there already; choose another --output, or --force to replace it",
                  file.string()));
}

// "matter: density 0.000 to 0.463, vx -0.299 to 0.296, ..."
std::string describe_ranges(std::string_view what, std::span<const float> values,
                            std::span<const std::string_view> channels) {
  std::string text = fmt::format("{}:", what);
  const auto cells = values.size() / channels.size();
  for (std::size_t channel = 0; channel < channels.size(); ++channel) {
    const auto [least, most] = std::ranges::minmax(values.subspan(channel * cells, cells));
    text += fmt::format("{} {} {:.3f} to {:.3f}", channel > 0 ? "," : "", channels[channel], least,
                        most);
  }
  return text;
}

void report_box(const NbodyArguments& arguments, const SimulationBox& box, double seconds) {
  constexpr std::string_view channels[] = {"density", "vx", "vy", "vz", "temperature"};
  print_wrapped(
      fmt::format("{} ({}): {} x {} x {} cells, seed {}, {}\n{}\n{}\n", arguments.output,
                  format_bytes(fs::file_size(arguments.output)), box.size, box.size, box.size,
                  arguments.box.seed, format_duration(seconds),
                  describe_ranges("matter", box.nbody, std::span(channels).first(nbody_channels)),
                  describe_ranges("gas", box.hydro, channels)));
}

int make_nbody(const NbodyArguments& arguments) {
  auto options = arguments.box;
  options.threads = detect_cpu_limits().cpus();
  check_cosmology_options(options);
  check_memory(options.size);
  require_ending("data: --output", arguments.output, {"HDF5", {".h5", ".hdf5"}, {}});
  check_file(arguments.output, arguments.force);
  make_folder_of("data: --output", arguments.output);
  const Stopwatch watch;
  ProgressBar bar(std::cout, progress_options_from_environment());
  std::string shown;
  const auto show = [&](double fraction, std::string_view phase) {
    const auto done = std::lround(100 * fraction);
    if (phase != shown) bar.start(shown = phase, 100, done);
    bar.update(done, {});
  };
  const auto box = make_cosmology_box(options, show);
  show(1, "writing");
  write_box_hdf5(box, arguments.output);
  bar.clear();
  report_box(arguments, box, watch.seconds());
  return 0;
}

void add_nbody_command(CLI::App& data, Chosen& chosen) {
  const auto [command, arguments] = add_command(
      data, chosen, "nbody", "Make a box of simulated universe: dark matter and gas", make_nbody);
  add_text_option(*command, "-o,--output FILE", arguments->output, "a file's name",
                  "The HDF5 file to make")
      ->required();
  add_number_option(*command, "--size N", arguments->box.size, {16, 1024},
                    "Cells per edge, an even number")
      ->default_str(std::to_string(arguments->box.size));
  add_number_option(*command, "--crop N", arguments->box.crop, {1, 1024},
                    "Keep only a corner with this many cells per edge");
  add_making_options(*command, *arguments, arguments->box.seed);
  command->footer(
      "Dark matter collapses from random beginnings up to redshift 3; gas follows it, held up by "
      "pressure and warmed by shocks. A network learns to tell the gas from the matter. The same "
      "options make the same box, with any number of threads.\n\n"
      "Example:\n"
      "  kolo data nbody --size 128 --seed 1 -o data/train.h5\n"
      "  kolo data nbody --size 128 --seed 2 --crop 64 -o data/valid.h5");
}

}  // namespace

void add_making_commands(CLI::App& data, Chosen& chosen) {
  add_cifar10_command(data, chosen);
  add_images_command(data, chosen);
  add_nbody_command(data, chosen);
}

}  // namespace kolo
