#include "cli/help.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/option_values.h"
#include "kolo/observe/format.h"
#include "kolo/observe/progress.h"

namespace kolo {

namespace {

constexpr std::size_t left_column = 30;
constexpr int most_columns = 100;  // lines of text that are longer are hard to read

// Of a terminal, or of whatever the page is read in later.
int page_width() {
  const auto terminal = detect_progress_options(STDOUT_FILENO);
  return terminal.terminal ? std::clamp(terminal.width, 40, most_columns) : 80;
}

// Lines that are indented are commands, each for itself; the others flow, as wide as the page is.
std::string flow(const std::string& text) {
  std::string flowing, paragraph;
  const auto finish = [&] {
    if (!paragraph.empty()) flowing += wrap(paragraph, page_width(), 0) + '\n';
    paragraph.clear();
  };
  for (const auto& line : CLI::detail::split(text, '\n')) {
    const bool is_verbatim = line.empty() || line.starts_with(' ');
    if (is_verbatim) {
      finish();
      flowing += wrap(line, page_width(), 6) + '\n';
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + line;
    }
  }
  finish();
  return flowing;
}

class HelpPage final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return entry(make_option_name(option, is_positional) + make_option_opts(option),
                 make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* command) const override {
    return wrap(CLI::Formatter::make_description(command), page_width());
  }
  std::string make_usage(const CLI::App* command, std::string name) const override {
    auto usage = CLI::Formatter::make_usage(command, std::move(name));
    if (command->get_prefix_command())
      usage.insert(std::min(usage.find_last_not_of('\n') + 1, usage.size()),
                   " PROGRAM [ARGUMENTS...]");
    return wrap(usage, page_width());
  }
  std::string make_footer(const CLI::App* command) const override {
    return flow(CLI::Formatter::make_footer(command));
  }

 private:
  static std::string entry(const std::string& left, const std::string& right) {
    std::string text = "  " + left;
    if (text.size() + 2 > left_column)
      text += '\n' + std::string(left_column, ' ');
    else
      text.resize(left_column, ' ');
    return wrap(text + right, page_width(), left_column) + "\n";
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> make_help_formatter() {
  return std::make_shared<HelpPage>();
}

namespace {

// Text as roff prints it: no commands, no hyphens for minus signs.
std::string escaped(const std::string& text) {
  std::string roff;
  for (const char letter : text) {
    if (letter == '-' || letter == '\\')
      roff += letter == '-' ? "\\-" : "\\e";
    else
      roff += letter;
  }
  return roff.starts_with('.') || roff.starts_with('\'') ? "\\&" + roff : roff;
}

// Lines that are indented are commands, which stay as they are; the others flow.
std::string paragraphs(const std::string& text) {
  std::istringstream lines(text);
  std::string roff;
  bool is_verbatim = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_indented = line.starts_with(' ');
    if (is_indented != is_verbatim) roff += is_indented ? ".PP\n.nf\n" : ".fi\n";
    is_verbatim = is_indented;
    roff += line.empty() ? ".PP\n" : escaped(line) + "\n";
  }
  return roff + (is_verbatim ? ".fi\n" : "");
}

std::string options_of(const CLI::App& command) {
  std::string roff;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_group().empty()) continue;
    const auto name =
        option->get_positional() ? option->get_name(true) : option->get_name(false, true);
    const auto type = takes_value(*option) ? option->get_type_name() : "";
    const auto preset = option->get_default_str();
    roff += fmt::format(".TP\n.B {}{}\n{}{}\n", escaped(name),
                        type.empty() ? "" : fmt::format(" \\fI{}\\fR", escaped(type)),
                        escaped(option->get_description()),
                        preset.empty() ? "" : fmt::format(" (default: {})", escaped(preset)));
  }
  return roff;
}

std::string commands_of(const CLI::App& app) {
  std::string roff;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    roff += fmt::format(".SS {}\n{}.\n{}.PP\n{}", escaped(full_name(*command)),
                        escaped(command->get_description()), options_of(*command),
                        paragraphs(command->get_footer()));
    roff += commands_of(*command);
  }
  return roff;
}

}  // namespace

std::string man_page(const CLI::App& program) {
  return fmt::format(
      ".TH KOLO 1 \"\" \"kolo {}\" \"User commands\"\n"
      ".SH NAME\nkolo \\- train neural networks on many processors\n"
      ".SH SYNOPSIS\n.B kolo\n.I COMMAND\n[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n"
      ".SH DESCRIPTION\n{}.\n.PP\n{}.SH OPTIONS\n{}.SH COMMANDS\n{}",
      KOLO_VERSION, escaped(program.get_description()), paragraphs(program.get_footer()),
      options_of(program), commands_of(program));
}

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
