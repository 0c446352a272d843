#include "cli/option_values.h"

#include <algorithm>

namespace kolo {

namespace {

std::string upper_case(std::string text) {
  for (char& letter : text)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  return text;
}

// "-o", or "FILE" of what has a place instead of a name.
std::string first_name(const std::string& names) {
  auto name = names.substr(0, names.find(','));
  if (!name.starts_with('-')) name = upper_case(name);
  return name;
}

void require_choice(const std::string& names, const std::vector<std::string>& choices,
                    const std::string& word, const std::string& text) {
  if (std::ranges::find(choices, word) != choices.end()) return;
  if (text.empty()) refuse_option_value(names, join(choices, " or "), text);
  const auto near = nearest(word, choices);
  throw InputError(fmt::format("{}: expected {}{}, got {}{}", first_name(names),
                               choices.size() > 1 ? "one of " : "", join(choices), quote(text),
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

// They stay with the option, beside what it is called, as the name of a check that checks nothing.
CLI::Option* keep_choices(CLI::Option* option, const std::vector<std::string>& choices) {
  return option->check(CLI::Validator("").name(join(choices, " ")).active(false));
}

}  // namespace

std::vector<std::string> choices_of(const CLI::Option& option) {
  try {
    // CLI11 lends what an option has only to those who may change it.
    const auto* const kept = const_cast<CLI::Option&>(option).get_validator(0);
    return CLI::detail::split(kept->get_name(), ' ');
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
}

void refuse_option_value(const std::string& names, const std::string& expected,
                         const std::string& text) {
  throw InputError(fmt::format("{}: expected {}, got {}", first_name(names), expected,
                               text.empty() ? "nothing" : quote(text)));
}

CLI::Option* add_value_option(CLI::App& command, const std::string& names, ReadOption read,
                              const std::string& description) {
  return command.add_option_function<std::string>(names, read, description);
}

std::string read_text(const CLI::App& command, const std::string& names, const std::string& what,
                      const std::string& text) {
  const bool is_option = text.starts_with('-') &&
                         command.get_option_no_throw(text.substr(0, text.find('='))) != nullptr;
  // "-o=DIR": CLI11 takes what follows the letter.
  const bool has_equals = text.starts_with('=') && first_name(names).size() == 2;
  if (text.empty() || is_option || has_equals) refuse_option_value(names, what, text);
  return text;
}

CLI::Option* add_choice_option(CLI::App& command, const std::string& names, std::string& value,
                               const std::vector<std::string>& choices,
                               const std::string& description) {
  const auto type = join(choices, "|");
  const auto read = [&value, names, choices](const std::string& text) {
    require_choice(names, choices, text, text);
    value = text;
  };
  return keep_choices(add_value_option(command, names, read, description)->type_name(type),
                      choices);
}

CLI::Option* add_choices_option(CLI::App& command, const std::string& names,
                                std::vector<std::string>& values,
                                const std::vector<std::string>& choices,
                                const std::string& description) {
  const auto read = [&values, names, choices](const std::string& text) {
    values = CLI::detail::split(text, ',');  // one that is empty of an empty text
    for (const auto& word : values) require_choice(names, choices, word, text);
  };
  return keep_choices(add_value_option(command, names, read, description), choices);
}

}  // namespace kolo
