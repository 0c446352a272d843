#include "cli/help.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/option_values.h"
#include "cli/shared_options.h"
#include "kolo/base/text.h"

namespace kolo {

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
