#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace kolo {

// The subcommands of `kolo data`, one per file; as in cli/commands.h.
void add_data_cifar10_command(CLI::App& data, std::function<int()>& action);
void add_data_images_command(CLI::App& data, std::function<int()>& action);
void add_data_nbody_command(CLI::App& data, std::function<int()>& action);
void add_data_convert_command(CLI::App& data, std::function<int()>& action);
void add_data_inspect_command(CLI::App& data, std::function<int()>& action);
void add_data_fetch_command(CLI::App& data, std::function<int()>& action);

}  // namespace kolo
