#include "cli/help/man_page.h"

#include <sstream>

#include <fmt/format.h>

#include "cli/command_line.h"

namespace kolo {

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

}  // namespace kolo
