#pragma once

#include <functional>
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

  // What the words, without the program's name, ask for: the command's action, which returns the
  // exit status, or one that prints what --help and the like want to know. InputError: they are
  // wrong; it says what was given, what is accepted and, where a word is misspelt, what it was
  // meant for.
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

}  // namespace kolo
