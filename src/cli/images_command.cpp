// kolo data cifar10 and kolo data images: sets of images that are made of others.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <mutex>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/tools/generators.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/progress.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

// Options that the commands share.
struct MakingArguments {
  std::string source_kind;  // --from
  std::string source;       // --source; empty: where it lies as a rule
  std::string output;
  std::uint64_t seed = 0;
  int threads = 0;  // 0: as many as there are processors
  bool force = false;
};

// Makes a data set by make(write), with a progress bar on stdout; prints in `words` the
// numbers of training and of validation images that it returns.
template <typename Make>
int make_with_progress(const MakingArguments& arguments, const char* words, Make make) {
  ProgressBar bar(std::cout, progress_options_from_environment());
  const Stopwatch watch;
  std::mutex mutex;
  std::int64_t most_done = -1;  // threads may report out of order
  const WriteOptions write{
      .threads = arguments.threads > 0 ? arguments.threads : detect_cpu_limits().cpus(),
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

void add_making_options(CLI::App& command, MakingArguments& arguments) {
  add_text_option(command, "-o,--output", arguments.output, "a folder", "The folder to make")
      ->required()
      ->type_name("DIR");
  add_text_option(command, "--source", arguments.source, "a folder",
                  "Where the data to start from lie")
      ->type_name("DIR");
  add_number_option(command, "--seed", arguments.seed, {0}, "Other images for another number")
      ->default_str(std::to_string(arguments.seed))
      ->type_name("N");
  add_number_option(command, "--threads", arguments.threads, {1, 1024},
                    "As many as there are processors, unless given")
      ->type_name("N");
  command.add_flag("--force", arguments.force, "Replace a data set of this kind that is there");
}

struct Cifar10Arguments : MakingArguments {
  std::int64_t per_class = 5000;
};

int make(const Cifar10Arguments& arguments) {
  StandInOptions stand_in{.seed = arguments.seed, .per_class = arguments.per_class};
  if (!arguments.source.empty()) stand_in.source = arguments.source;
  return make_with_progress(arguments, "{} training and {} validation images in CIFAR-10's format",
                            [&](const WriteOptions& write) {
                              return write_cifar10_stand_in(arguments.output, stand_in, write);
                            });
}

}  // namespace

void add_data_cifar10_command(CLI::App& data, std::function<int()>& action) {
  const auto arguments = std::make_shared<Cifar10Arguments>();
  CLI::App* const command =
      data.add_subcommand("cifar10", "Make a stand-in for CIFAR-10, in its binary format");
  add_choice_option(*command, "--from", arguments->source_kind, {"fashion-mnist"},
                    "What to make it of: fashion-mnist")
      ->required();
  add_making_options(*command, *arguments);
  add_number_option(*command, "--per-class", arguments->per_class, {1, 1000000},
                    "Training images of each class")
      ->default_str(std::to_string(arguments->per_class))
      ->type_name("N");
  command->footer(
      "Garments of Fashion-MNIST, moved, turned, coloured, on patterned backgrounds, with others\n"
      "behind them and blocks before them: about as hard as CIFAR-10, for machines that can't get\n"
      "it. The same files for the same seed, with any number of threads. All of Fashion-MNIST's\n"
      "test images become the validation split.\n\n"
      "Example:\n"
      "  kolo data cifar10 --from fashion-mnist -o data/stand-in\n"
      "  kolo train configs/cifar10_cnn.yaml data.path=data/stand-in");
  command->callback([arguments, &action] { action = [arguments] { return make(*arguments); }; });
}

namespace {

struct ImagesArguments : MakingArguments {
  std::int64_t per_class = 100;
  std::string sizes = "160..640";
};

// "MIN..MAX", or one size for all.
void read_sizes(const std::string& text, PhotographFolderOptions& options) {
  const auto number = [&](std::string_view part) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error == std::errc() && end == part.data() + part.size()) return value;
    throw InputError(
        fmt::format("data: --size {}: expected MIN..MAX in pixels, for example 160..640", text));
  };
  const auto dots = text.find("..");
  options.least_side = number(std::string_view(text).substr(0, dots));
  options.most_side = dots == std::string::npos ? options.least_side
                                                : number(std::string_view(text).substr(dots + 2));
}

int make(const ImagesArguments& arguments) {
  PhotographFolderOptions options{
      .stand_in = {.seed = arguments.seed, .per_class = arguments.per_class}};
  if (!arguments.source.empty()) options.stand_in.source = arguments.source;
  read_sizes(arguments.sizes, options);
  return make_with_progress(arguments, "{} JPEG files in train/, {} in valid/, {} classes",
                            [&](const WriteOptions& write) {
                              return write_photograph_folder(arguments.output, options, write);
                            });
}

}  // namespace

void add_data_images_command(CLI::App& data, std::function<int()>& action) {
  const auto arguments = std::make_shared<ImagesArguments>();
  CLI::App* const command =
      data.add_subcommand("images", "Make folders of JPEG files, laid out as ImageNet's");
  add_choice_option(*command, "--from", arguments->source_kind, {"fashion-mnist"},
                    "What to make them of: fashion-mnist")
      ->required();
  add_making_options(*command, *arguments);
  add_number_option(*command, "--per-class", arguments->per_class, {1, 1000000},
                    "Training images of each class; a fifth of that for validation")
      ->default_str(std::to_string(arguments->per_class))
      ->type_name("N");
  add_text_option(*command, "--size", arguments->sizes, "MIN..MAX in pixels, for example 160..640",
                  "Both sides' pixels are between these")
      ->default_str(arguments->sizes)
      ->type_name("MIN..MAX");
  command->footer(
      "train/CLASS/*.jpg and valid/CLASS/*.jpg, of varying sizes and aspects, some of them grey.\n"
      "The same files for the same seed, with any number of threads.\n\n"
      "Example:\n"
      "  kolo data images --from fashion-mnist -o data/images --per-class 200 --size 224..500");
  command->callback([arguments, &action] { action = [arguments] { return make(*arguments); }; });
}

}  // namespace kolo
