#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace kolo {

// Each command is one file with one of these functions. It adds the command with its options to the
// program; when the user chose the command, `action` becomes what main() runs afterwards and whose
// result is the exit status. Parsing itself does nothing else. `words` are those of the command
// line, once it is parsed: what starts itself again on several ranks passes them on.
void add_train_command(CLI::App& app, std::function<int()>& action,
                       const std::vector<std::string>& words);
void add_bench_command(CLI::App& app, std::function<int()>& action,
                       const std::vector<std::string>& words);
void add_eval_command(CLI::App& app, std::function<int()>& action,
                      const std::vector<std::string>& words);
void add_scale_command(CLI::App& app, std::function<int()>& action);
void add_doctor_command(CLI::App& app, std::function<int()>& action);
void add_run_command(CLI::App& app, std::function<int()>& action);
void add_data_command(CLI::App& app, std::function<int()>& action);
void add_timeline_command(CLI::App& app, std::function<int()>& action);
void add_report_command(CLI::App& app, std::function<int()>& action);
void add_help_command(CLI::App& app, std::function<int()>& action);
void add_completion_command(CLI::App& app, std::function<int()>& action);
void add_man_command(CLI::App& app, std::function<int()>& action);

// The subcommands of `kolo data`.
void add_data_cifar10_command(CLI::App& data, std::function<int()>& action);
void add_data_images_command(CLI::App& data, std::function<int()>& action);
void add_data_nbody_command(CLI::App& data, std::function<int()>& action);
void add_data_convert_command(CLI::App& data, std::function<int()>& action);
void add_data_inspect_command(CLI::App& data, std::function<int()>& action);
void add_data_fetch_command(CLI::App& data, std::function<int()>& action);

}  // namespace kolo
