#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace kolo {

// The program's commands and the reading of its command line.
class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  [[nodiscard]] const CLI::App& app() const { return app_; }

  // Action of the command that the words (without the program's name) ask for, which returns the
  // exit status; or one that prints what --help and the like want to know. InputError: what was
  // given, what is accepted and, where a word is misspelt, what it was meant for.
  [[nodiscard]] std::function<int()> parse(std::vector<std::string> words);

 private:
  CLI::App app_;
  std::vector<std::string> words_;  // as they were given to parse()
  std::function<int()> action_;
};

// False for flags.
[[nodiscard]] bool takes_value(const CLI::Option& option);

// Commands with their options, as one writes them: "kolo data fetch".
[[nodiscard]] std::string full_name(const CLI::App& command);

// What the program does with the words of its command line (without its name): runs the command
// that they ask for and says on stderr what went wrong. Returns the exit status.
[[nodiscard]] int run_kolo_program(const std::vector<std::string>& words);

// The end of main(): what is printed is flushed, and the process ends without the destructors of
// LibTorch's registries, which take a tenth of a second in every rank.
[[noreturn]] void end_process(int status);

// Adds a command with its options to the program. When the user chose it, `action` becomes what
// main() runs, and its result the exit status. `words` of the command line are there once it is
// parsed, for commands that start themselves on several ranks.
void add_train_command(CLI::App& app, std::function<int()>& action,
                       const std::vector<std::string>& words);
void add_bench_command(CLI::App& app, std::function<int()>& action,
                       const std::vector<std::string>& words);
void add_eval_command(CLI::App& app, std::function<int()>& action,
                      const std::vector<std::string>& words);
void add_predict_command(CLI::App& app, std::function<int()>& action,
                         const std::vector<std::string>& words);
void add_scale_command(CLI::App& app, std::function<int()>& action);
void add_sweep_command(CLI::App& app, std::function<int()>& action);
void add_doctor_command(CLI::App& app, std::function<int()>& action);
void add_run_command(CLI::App& app, std::function<int()>& action);
void add_data_command(CLI::App& app, std::function<int()>& action);
void add_timeline_command(CLI::App& app, std::function<int()>& action);
void add_report_command(CLI::App& app, std::function<int()>& action);
void add_help_command(CLI::App& app, std::function<int()>& action);

// The subcommands of `kolo data`.
void add_data_cifar10_command(CLI::App& data, std::function<int()>& action);
void add_data_images_command(CLI::App& data, std::function<int()>& action);
void add_data_nbody_command(CLI::App& data, std::function<int()>& action);
void add_data_inspect_command(CLI::App& data, std::function<int()>& action);
void add_data_fetch_command(CLI::App& data, std::function<int()>& action);

// What --help prints: as wide as the terminal, broken between words.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> make_help_formatter();

}  // namespace kolo
