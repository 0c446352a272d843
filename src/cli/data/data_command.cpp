#include "cli/command_line.h"

namespace kolo {

void add_data_command(CLI::App& app, std::function<int()>& action) {
  CLI::App* const data = app.add_subcommand("data", "Get, make, convert and look at data sets");
  data->require_subcommand(1);
  add_data_fetch_command(*data, action);
  add_data_cifar10_command(*data, action);
  add_data_images_command(*data, action);
  add_data_nbody_command(*data, action);
  add_data_convert_command(*data, action);
  add_data_inspect_command(*data, action);
  data->footer(
      "Examples:\n"
      "  kolo data fetch cifar10                            download CIFAR-10\n"
      "  kolo data cifar10 --from fashion-mnist -o data/stand-in\n"
      "                                                     make data like it where there is no "
      "network\n"
      "  kolo data images --from fashion-mnist -o data/images\n"
      "                                                     make folders of JPEG files as ImageNet "
      "has them\n"
      "  kolo data nbody -o data/train.h5                   make a box of simulated universe\n"
      "  kolo data convert box.h5 -o box                    as a pair of .npy files\n"
      "  kolo data inspect box.h5                           shapes, ranges, advice\n\n"
      "kolo data COMMAND --help says more.");
}

}  // namespace kolo
