#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <string_view>

#include <fmt/format.h>

namespace kolo {

struct RunLogOptions {
  std::ostream* console =
      nullptr;                 // std::cerr or std::cout, outliving the log; nullptr: no console
  bool colour = false;         // ANSI colours on the console: see detect_colour()
  int width = 0;               // columns that the console's lines are wrapped at; 0: not
  std::filesystem::path file;  // <run folder>/out.log, appended to; empty: no file
};

// True for a terminal whose user did not object to colours (NO_COLOR, TERM=dumb).
[[nodiscard]] bool detect_colour(int descriptor);

// Log of a run: on the console plain lines ("warning: ..." marked), in a file lines with time
// stamps, flushed unless they are debug. Details (debug) are for the file alone. Several threads
// may use it.
//
// A line never mixes with a progress bar when it is printed through it:
//   log.route_console_through([&](std::string_view line) { bar.print_above(line); });
class RunLog {
 public:
  // Error: the file can't be opened.
  explicit RunLog(RunLogOptions options);

  template <typename... Arguments>
  void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    write(Level::debug, format, fmt::make_format_args(arguments...));
  }
  template <typename... Arguments>
  void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    write(Level::info, format, fmt::make_format_args(arguments...));
  }
  template <typename... Arguments>
  void warn(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    write(Level::warning, format, fmt::make_format_args(arguments...));
  }

  // Sends the console's lines, without newline, to `print`; an empty function restores the stream.
  // `print` must not log, and what it uses must live until it is replaced.
  void route_console_through(std::function<void(std::string_view)> print);

 private:
  enum class Level { debug, info, warning };

  void write(Level level, fmt::string_view format, fmt::format_args arguments);

  RunLogOptions options_;
  std::ofstream file_;
  std::function<void(std::string_view)> print_;  // empty: to the console itself
  std::mutex mutex_;
};

}  // namespace kolo
