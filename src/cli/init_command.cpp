#include <filesystem>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/tools/data_sets.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

struct InitArguments {
  std::string data, output = "config.yaml";
};

int init(const InitArguments& arguments) {
  const auto& file = arguments.output;
  require_ending("init: --output", file, {"YAML", {".yaml", ".yml"}, {}});
  if (std::filesystem::exists(file))
    throw InputError(fmt::format("init: {} is there already; choose another --output", file));
  const auto [seen, yaml] = first_configuration(arguments.data, file);
  make_folder_of("init: --output", file);
  write_file_atomically(file, yaml);
  print_wrapped(fmt::format("{}: {}\n{} is written; next: kolo train {} -n 2\n", arguments.data,
                            seen, file, file));
  return 0;
}

}  // namespace

void add_init_command(CLI::App& app, Chosen& chosen) {
  const auto [command, arguments] =
      add_command(app, chosen, "init", "Write a first configuration for data of your own", init);
  add_text_option(*command, "data PATH", arguments->data, "a folder or file of data",
                  "A folder for each class of images, MNIST's or CIFAR-10's files, .npy arrays, an "
                  "HDF5 file, or a simulation box");
  add_text_option(*command, "-o,--output FILE", arguments->output, "a file's name",
                  "The configuration to write")
      ->default_str(arguments->output);
  command->footer(
      "Chooses a network, a batch and a number of epochs that fit the data, and explains them in "
      "comments. Parts named train and valid are taken as such; otherwise every fifth sample "
      "validates.\n\n"
      "Example:\n"
      "  kolo init data/pictures\n"
      "  kolo train config.yaml -n 2");
}

}  // namespace kolo
