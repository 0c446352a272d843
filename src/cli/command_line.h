#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "kolo/run/run.h"

namespace kolo {

// A program with commands: kolo, or one that trains with parts of its own.
struct Program {
  std::string name = "kolo";
  RunComponents components = {};
  bool is_kolo = true;  // has commands that need no parts: init, data, doctor, run, timeline
};

// The command that the user chose.
struct Chosen {
  Program program;
  std::vector<std::string> words;  // of the command line, without the program's name
  std::function<int()> action;     // runs the command and returns the exit status
};

// The program's commands and the reading of its command line.
class CommandLine {
 public:
  explicit CommandLine(Program program = {});
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  [[nodiscard]] const CLI::App& app() const { return app_; }

  // Action of the command that the words (without the program's name) ask for, or one that prints
  // help; it returns the exit status. InputError names what was given and what is accepted, and
  // suggests the right word for a misspelt one.
  [[nodiscard]] std::function<int()> parse(std::vector<std::string> words);

 private:
  CLI::App app_;
  Chosen chosen_;
};

// False for flags.
[[nodiscard]] bool takes_value(const CLI::Option& option);

// Full name of a command: "kolo data fetch".
[[nodiscard]] std::string full_name(const CLI::App& command);

// Runs the command that the words (without the program's name) ask for and reports errors on
// stderr. Returns the exit status.
[[nodiscard]] int run_program(const std::vector<std::string>& words, const Program& program = {});

// Ends main(): flushes output and skips the destructors of LibTorch's registries, which take a
// tenth of a second in every rank.
[[noreturn]] void end_process(int status);

// Adds a command, and arguments for its options to fill in; run(arguments) is the chosen action
// when the user names the command, which owns them.
template <typename Arguments>
std::pair<CLI::App*, Arguments*> add_command(CLI::App& app, Chosen& chosen, const std::string& name,
                                             const std::string& description,
                                             int (*run)(const Arguments&)) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* const command = app.add_subcommand(name, description);
  command->callback(
      [&chosen, arguments, run] { chosen.action = [arguments, run] { return run(*arguments); }; });
  return {command, arguments.get()};
}

// Each adds a command with its options to the program.
void add_init_command(CLI::App& app, Chosen& chosen);
void add_train_command(CLI::App& app, Chosen& chosen);
void add_bench_command(CLI::App& app, Chosen& chosen);
void add_eval_command(CLI::App& app, Chosen& chosen);
void add_predict_command(CLI::App& app, Chosen& chosen);
void add_scale_command(CLI::App& app, Chosen& chosen);
void add_sweep_command(CLI::App& app, Chosen& chosen);
void add_doctor_command(CLI::App& app, Chosen& chosen);
void add_run_command(CLI::App& app, Chosen& chosen);
void add_data_command(CLI::App& app, Chosen& chosen);
void add_timeline_command(CLI::App& app, Chosen& chosen);
void add_report_command(CLI::App& app, Chosen& chosen);

// Adds the subcommands of `kolo data` that make data: cifar10, images, nbody.
void add_making_commands(CLI::App& data, Chosen& chosen);

// Formatter of --help: as wide as the terminal, broken between words.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> make_help_formatter();

}  // namespace kolo
