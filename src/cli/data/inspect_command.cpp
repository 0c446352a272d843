#include <iostream>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/tools/inspection.h"

namespace kolo {

namespace {

struct InspectArguments {
  std::string path;
  bool quick = false;
  bool json = false;
};

int inspect_for_user(const InspectArguments& arguments) {
  const auto inspection = inspect(arguments.path, !arguments.quick);
  if (arguments.json) {
    // Names of files need not be UTF-8.
    std::cout << inspection.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else {
    print_inspection(inspection, std::cout);
  }
  return 0;
}

}  // namespace

void add_data_inspect_command(CLI::App& data, std::function<int()>& action) {
  const auto arguments = std::make_shared<InspectArguments>();
  CLI::App* const command = data.add_subcommand("inspect", "Show what is in a data file");
  add_text_option(*command, "path", arguments->path, "a file or a folder",
                  "A file, a folder, or the prefix of a .npy pair")
      ->required()
      ->type_name("FILE");
  command->add_flag("--quick", arguments->quick, "Leave out the ranges of large arrays");
  command->add_flag("--json", arguments->json, "One JSON object on standard output");
  command->footer(
      "Reads IDX (plain or gzip), CIFAR-10's binary batches and folders of them, images and "
      "folders\n"
      "of images, simulation boxes (HDF5, .npy pairs), arrays (.npy, HDF5), safetensors; told by\n"
      "content.\n"
      "Lines with ! are advice.\n\n"
      "Examples:\n"
      "  kolo data inspect box.h5\n"
      "  kolo data inspect data/cifar10 --json");
  command->callback(
      [arguments, &action] { action = [arguments] { return inspect_for_user(*arguments); }; });
}

}  // namespace kolo
