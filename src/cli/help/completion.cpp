#include "cli/help/completion.h"

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/shared_options.h"
#include "kolo/base/suggest.h"

namespace kolo {

namespace {

// What fills the arms of the script's case statements.
struct Arms {
  std::string commands;  // those before the word that is completed
  std::string values;    // of the option before it
  std::string words;     // what may stand in a command
};

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

// How the script finds the values of an option, by what they are called: "best|newest", DIR.
std::string completer_of(const std::string& type) {
  if (type.find('|') != std::string::npos)
    return fmt::format("compgen -W \"{}\"", join(CLI::detail::split(type, '|'), " "));
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
  std::vector<std::string> options, inner_names;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_group().empty()) continue;
    const auto names = names_of(*option);
    options.insert(options.end(), names.begin(), names.end());
    if (names.empty() || !takes_value(*option)) continue;
    std::vector<std::string> keys;
    for (const auto& name : names) keys.push_back(fmt::format("\"{}:{}\"", key, name));
    arms.values += fmt::format("    {}) COMPREPLY=($({} -- \"$current\")); return ;;\n",
                               join(keys, "|"), completer_of(option->get_type_name()));
  }
  for (const CLI::App* const inner : command.get_subcommands([](const CLI::App*) { return true; }))
    inner_names.push_back(inner->get_name());
  const bool has_settings = command.get_option_no_throw(settings_name) != nullptr;
  arms.words += fmt::format("    \"{}\") options=\"{}\" words=\"{}\" ;;\n", key, join(options, " "),
                            has_settings ? "$_kolo_settings" : join(inner_names, " "));
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
                     KOLO_VERSION, join(settings, " "), arms.commands, arms.values, arms.words);
}

}  // namespace kolo
