#include <algorithm>
#include <charconv>
#include <iostream>

#include <fmt/format.h>

#include "cli/data/data_commands.h"
#include "cli/data/making.h"
#include "cli/option_values.h"
#include "kolo/base/error.h"
#include "kolo/generators/photograph_folder.h"
#include "kolo/observe/format.h"
#include "launch/terminal.h"

namespace kolo {

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

std::array<std::int64_t, 2> make_of_stand_in(const ImagesArguments& arguments,
                                             const PhotographFolderOptions& options,
                                             const WriteOptions& write) {
  StandInOptions stand_in{.seed = arguments.seed, .per_class = arguments.per_class};
  if (!arguments.source.empty()) stand_in.source = arguments.source;
  const StandInImages training(stand_in, Split::train), validation(stand_in, Split::validation);
  const auto images_of = [](const StandInImages& source) {
    return SmallImages{
        source.size(), [&](std::int64_t index) { return source.label(index); },
        [&](std::int64_t index, std::span<std::uint8_t> pixels) { source.paint(index, pixels); }};
  };
  const std::vector<std::string> names(fashion_mnist_names.begin(), fashion_mnist_names.end());
  return write_photograph_folder(arguments.output, images_of(training), images_of(validation),
                                 names, options, write);
}

std::array<std::int64_t, 2> make_of_cifar10(const ImagesArguments& arguments,
                                            const PhotographFolderOptions& options,
                                            const WriteOptions& write) {
  if (arguments.source.empty()) {
    throw InputError("data: --from cifar10 needs --source DIR, the folder of CIFAR-10's batches");
  }
  const Cifar10Dataset training(arguments.source, Split::train);
  const Cifar10Dataset validation(arguments.source, Split::validation);
  const auto images_of = [](const Cifar10Dataset& source) {
    return SmallImages{source.size(), [&](std::int64_t index) { return source.label(index); },
                       [&](std::int64_t index, std::span<std::uint8_t> pixels) {
                         std::ranges::copy(source.pixels(index), pixels.begin());
                       }};
  };
  auto names = training.class_names();
  if (names.empty()) names.assign(cifar10_classes, "class");
  return write_photograph_folder(arguments.output, images_of(training), images_of(validation),
                                 names, options, write);
}

int make(const ImagesArguments& arguments) {
  PhotographFolderOptions options{.per_class = arguments.per_class, .seed = arguments.seed};
  read_sizes(arguments.sizes, options);
  MakingProgress progress;
  const WriteOptions write{
      .threads = arguments.thread_count(),
      .replace = arguments.force,
      .progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total); }};
  const auto [training, validation] = arguments.source_kind == "cifar10"
                                          ? make_of_cifar10(arguments, options, write)
                                          : make_of_stand_in(arguments, options, write);
  const double seconds = progress.finish();
  print_wrapped(fmt::format("{}: {} JPEG files in train/, {} in valid/, {} classes, {}\n",
                            arguments.output, format_count(training), format_count(validation),
                            cifar10_classes, format_duration(seconds)));
  return 0;
}

}  // namespace

void add_data_images_command(CLI::App& data, std::function<int()>& action) {
  const auto arguments = std::make_shared<ImagesArguments>();
  CLI::App* const command =
      data.add_subcommand("images", "Make folders of JPEG files, laid out as ImageNet's");
  add_choice_option(*command, "--from", arguments->source_kind, {"fashion-mnist", "cifar10"},
                    "What to make them of: fashion-mnist or cifar10 (with --source)")
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
      "Examples:\n"
      "  kolo data images --from fashion-mnist -o data/images --per-class 200\n"
      "  kolo data images --from cifar10 --source data/cifar10 -o data/images --size 224..500");
  command->callback([arguments, &action] { action = [arguments] { return make(*arguments); }; });
}

}  // namespace kolo
