#include "run/launch/terminal.h"

#include <charconv>
#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

constexpr std::string_view ascii_suffix = " ascii";

ProgressOptions read_terminal(std::string_view text) {
  ProgressOptions options;
  if (text.ends_with(ascii_suffix)) {
    options.unicode = false;
    text.remove_suffix(ascii_suffix.size());
  }
  int columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  options.terminal = columns > 0;
  if (options.terminal) options.width = columns;
  return options;
}

}  // namespace

ProgressOptions progress_options_from_environment(const EnvironmentLookup& lookup) {
  if (const auto text = lookup("KOLO_TERMINAL")) return read_terminal(*text);
  ProgressOptions options = detect_progress_options(STDOUT_FILENO);
  if (detect_launch_environment(lookup).is_launched()) options.terminal = false;
  return options;
}

void make_bar(std::optional<ProgressBar>& bar) {
  const auto options = progress_options_from_environment();
  bar.emplace(options.terminal ? std::cout : std::cerr, options);
}

int terminal_width(int descriptor) {
  const auto noted = environment_variable("KOLO_TERMINAL");
  const auto options = noted ? read_terminal(*noted) : detect_progress_options(descriptor);
  return options.terminal ? options.width : 0;
}

void complain(const std::string& message) {
  std::cerr << wrap("kolo: " + message, terminal_width(STDERR_FILENO)) << std::endl;
}

void print_wrapped(std::string_view text) {
  std::cout << wrap(text, terminal_width(STDOUT_FILENO)) << std::flush;
}

std::string describe_terminal(const ProgressOptions& options) {
  return fmt::format("{}{}", options.terminal ? options.width : 0,
                     options.unicode ? std::string_view() : ascii_suffix);
}

}  // namespace kolo
