#include "cli/command_line.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/train/observe/format.h"
#include "kolo/train/observe/progress.h"

namespace kolo {

namespace {

constexpr std::size_t left_column = 30, left_of_commands = 12;
constexpr int most_columns = 100;  // lines of text that are longer are hard to read

// Columns of the terminal; 80 if stdout is none.
int page_width() {
  const auto terminal = detect_progress_options(STDOUT_FILENO);
  return terminal.terminal ? std::clamp(terminal.width, 40, most_columns) : 80;
}

// Breaks each line where the page ends; commands, which are indented, go on deeper.
std::string flow(const std::string& text) {
  std::string flowing;
  for (const auto& line : CLI::detail::split(text, '\n'))
    flowing += wrap(line, page_width(), line.starts_with(' ') ? 6 : 0) + '\n';
  return flowing;
}

class HelpPage final : public CLI::Formatter {
 public:
  // CLI11 leaves two lines empty between groups of options.
  std::string make_help(const CLI::App* command, std::string name,
                        CLI::AppFormatMode mode) const override {
    auto page = CLI::Formatter::make_help(command, std::move(name), mode);
    for (std::size_t at = 0; (at = page.find("\n\n\n", at)) != std::string::npos;)
      page.erase(at, 1);
    return page;
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const auto names = make_option_name(option, is_positional) + make_option_opts(option);
    // Descriptions say which other option one needs.
    return entry(names.substr(0, names.find(" Needs:")), make_option_desc(option), left_column);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description(), left_of_commands);
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
    const auto program = full_name(*command).substr(0, full_name(*command).find(' '));
    return flow(CLI::detail::find_and_replace(CLI::Formatter::make_footer(command), "\n  kolo ",
                                              fmt::format("\n  {} ", program)));
  }

 private:
  static std::string entry(const std::string& left, const std::string& right, std::size_t column) {
    std::string text = "  " + left;
    if (text.size() + 2 > column)
      text += '\n' + std::string(column, ' ');
    else
      text.resize(column, ' ');
    return wrap(text + right, page_width(), static_cast<int>(column)) + "\n";
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> make_help_formatter() {
  return std::make_shared<HelpPage>();
}

}  // namespace kolo
