#include <iostream>

#include <fmt/format.h>

#include "cli/data/data_commands.h"
#include "cli/data/making.h"
#include "cli/option_values.h"
#include "kolo/generators/cifar10_stand_in.h"
#include "kolo/observe/format.h"
#include "launch/terminal.h"

namespace kolo {

namespace {

struct Cifar10Arguments : MakingArguments {
  std::int64_t per_class = 5000;
};

int make(const Cifar10Arguments& arguments) {
  StandInOptions stand_in{.seed = arguments.seed, .per_class = arguments.per_class};
  if (!arguments.source.empty()) stand_in.source = arguments.source;
  MakingProgress progress;
  const auto [training, validation] = write_cifar10_stand_in(
      arguments.output, stand_in,
      {.threads = arguments.thread_count(),
       .replace = arguments.force,
       .progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total); }});
  const double seconds = progress.finish();
  print_wrapped(fmt::format("{}: {} training and {} validation images in CIFAR-10's format, {}\n",
                            arguments.output, format_count(training), format_count(validation),
                            format_duration(seconds)));
  return 0;
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

}  // namespace kolo
