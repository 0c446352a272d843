#include "cli/command_line.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/options.h"
#include "kolo/base/text.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/progress.h"

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

namespace {

// What fills the arms of the script's case statements.
struct Arms {
  std::string commands;  // those before the word that is completed
  std::string values;    // of the option before it
  std::string words;     // what may stand in a command
  std::string programs;  // of commands after which a program's own words come
};

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

// The words that may be given: an option's choices, or those in "[best|STEP|PATH]", where what is
// in capitals stands for something else.
std::vector<std::string> words_for(const CLI::Option& option) {
  auto words = choices_of(option);
  if (!words.empty()) return words;
  auto type = option.get_type_name();
  std::erase_if(type, [](char letter) { return letter == '[' || letter == ']'; });
  if (type.find('|') == std::string::npos) return {};
  words = CLI::detail::split(type, '|');
  const auto is_capital = [](char letter) { return letter >= 'A' && letter <= 'Z'; };
  std::erase_if(words, [&](const auto& word) { return std::ranges::any_of(word, is_capital); });
  return words;
}

// How the script finds the values of an option: its words, or by what they are called: DIR.
std::string completer_of(const CLI::Option& option) {
  if (const auto words = words_for(option); !words.empty())
    return fmt::format("compgen -W \"{}\"", join(words, " "));
  const auto type = option.get_type_name();
  if (type == "DIR" || type == "FOLDER") return "compgen -d";
  return type == "FILE" ? "compgen -f" : ":";
}

// "kolo data fetch" is " data fetch" in the script.
std::string key_of(const CLI::App& command) {
  const auto name = full_name(command);
  return name.substr(std::min(name.find(' '), name.size()));
}

void add_command(Arms& arms, const CLI::App& command) {
  const auto key = key_of(command);
  std::vector<std::string> options, positional_words, with_value;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_group().empty()) continue;
    const auto names = names_of(*option);
    options.insert(options.end(), names.begin(), names.end());
    if (names.empty()) {
      const auto words = choices_of(*option);
      positional_words.insert(positional_words.end(), words.begin(), words.end());
    }
    if (names.empty() || !takes_value(*option)) continue;
    if (command.get_prefix_command())
      with_value.insert(with_value.end(), names.begin(), names.end());
    std::vector<std::string> keys;
    for (const auto& name : names) keys.push_back(fmt::format("\"{}:{}\"", key, name));
    arms.values += fmt::format("    {}) COMPREPLY=($({} -- \"$current\")); return ;;\n",
                               join(keys, "|"), completer_of(*option));
  }
  for (const CLI::App* const inner : command.get_subcommands([](const CLI::App*) { return true; }))
    positional_words.push_back(inner->get_name());
  const bool has_settings = command.get_option_no_throw(settings_name) != nullptr;
  arms.words += fmt::format("    \"{}\") options=\"{}\" words=\"{}\" ;;\n", key, join(options, " "),
                            has_settings ? "$_kolo_settings" : join(positional_words, " "));
  if (command.get_prefix_command())
    arms.programs += fmt::format("    \"{}\") _kolo_has_program \"{}\" && return 0 ;;\n", key,
                                 join(with_value, " "));
  if (!key.empty()) arms.commands += fmt::format("{}\"{}\"", arms.commands.empty() ? "" : "|", key);
  for (const CLI::App* const inner : command.get_subcommands([](const CLI::App*) { return true; }))
    add_command(arms, *inner);
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  Arms arms;
  add_command(arms, program);
  std::vector<std::string> settings;
  for (const auto& setting : setting_names()) settings.push_back(setting + "=");
  return fmt::format(R"(# Completion of kolo {} in bash, made by `kolo completion bash`.
_kolo_settings="{}"
# Whether there is a program before the word that is completed, behind a command whose options with
# a value are $1.
_kolo_has_program() {{
  local at=2
  while (( at < COMP_CWORD )); do
    [[ ${{COMP_WORDS[at]}} == -- || ${{COMP_WORDS[at]}} != -* ]] && return 0
    [[ ${{COMP_WORDS[at + 1]-}} == = ]] && (( at += 2 ))
    [[ " $1 " == *" ${{COMP_WORDS[at]}} "* ]] && (( at += 1 ))
    (( at += 1 ))
  done
  return 1
}}
_kolo() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command= options= word words=
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $word" in
    {}) command="$command $word" ;;
    esac
  done
  # A value behind key= is the user's own; what is left to complete are files.
  [[ $current == = || $previous == = ]] && return
  case "$command" in
{}  esac
  case "$command:$previous" in
{}  esac
  case "$command" in
{}  esac
  [[ $current == -* ]] && words=$options
  # Settings are many: they wait for a letter, and files are offered until then.
  [[ -z $current && $words == "$_kolo_settings" ]] && return
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
  return 0
}}
complete -o bashdefault -o default -F _kolo kolo
)",
                     KOLO_VERSION, join(settings, " "), arms.commands, arms.programs, arms.values,
                     arms.words);
}

}  // namespace kolo
