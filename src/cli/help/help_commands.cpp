#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/help/completion.h"
#include "cli/help/man_page.h"
#include "cli/option_values.h"

namespace kolo {

// CommandLine::parse() reads "help COMMAND" as "COMMAND --help": this is there for the lists of
// commands.
void add_help_command(CLI::App& app, std::function<int()>&) {
  CLI::App* const command =
      app.add_subcommand("help", "Say more of a command: kolo help train, kolo help data fetch");
  std::vector<std::string> names{"help", "completion", "man"};
  for (const CLI::App* const other : app.get_subcommands([](const CLI::App*) { return true; }))
    if (other != command) names.push_back(other->get_name());
  const auto wanted = std::make_shared<std::string>();
  add_choice_option(*command, "command", *wanted, names,
                    "The command, the program itself unless given")
      ->type_name("COMMAND");
  command->callback([wanted] {});
}

void add_completion_command(CLI::App& app, std::function<int()>& action) {
  CLI::App* const command =
      app.add_subcommand("completion", "Print a script that makes a shell complete kolo's options");
  const auto shell = std::make_shared<std::string>();
  add_choice_option(*command, "shell", *shell, {"bash"}, "The shell; there is one for bash")
      ->required()
      ->type_name("SHELL");
  command->footer(
      "An installed kolo has it already, where bash looks for such scripts.\n\n"
      "Example:\n"
      "  source <(kolo completion bash)            in ~/.bashrc, for a kolo that is not installed");
  command->callback([&app, &action, shell] {
    action = [&app] {
      std::cout << bash_completion(app) << std::flush;
      return 0;
    };
  });
}

void add_man_command(CLI::App& app, std::function<int()>& action) {
  CLI::App* const command = app.add_subcommand("man", "Print kolo's manual page, in roff");
  command->footer("Example:\n  kolo man | man -l -");
  command->callback([&app, &action] {
    action = [&app] {
      std::cout << man_page(app) << std::flush;
      return 0;
    };
  });
}

}  // namespace kolo
