#include "kolo/train/observe/run_log.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <ostream>
#include <utility>

#include <fmt/chrono.h>
#include <unistd.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/train/observe/format.h"

namespace kolo {

bool detect_colour(int descriptor) {
  const char* terminal = std::getenv("TERM");
  const char* objection = std::getenv("NO_COLOR");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  const bool is_unwanted = objection != nullptr && *objection != '\0';
  return ::isatty(descriptor) == 1 && !is_dumb && !is_unwanted;
}

RunLog::RunLog(RunLogOptions options) : options_(std::move(options)) {
  if (options_.file.empty()) return;
  std::error_code ignored;  // opening the file tells
  std::filesystem::create_directories(options_.file.parent_path(), ignored);
  // A named pipe would let the open wait for ever.
  const auto kind = std::filesystem::status(options_.file, ignored).type();
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found)
    throw InputError(fmt::format("log: {} is not a file; remove it, or choose another folder",
                                 options_.file.string()));
  file_.open(options_.file, std::ios::app);
  if (!file_)
    throw Error(
        system_error_text(fmt::format("log: cannot open {}", options_.file.string()), errno));
}

void RunLog::write(Level level, fmt::string_view format, fmt::format_args arguments) {
  constexpr std::string_view names[] = {"debug", "info", "warning"};
  const auto name = names[static_cast<std::size_t>(level)];
  const auto text = fmt::vformat(format, arguments);
  const std::lock_guard lock(mutex_);
  if (options_.console != nullptr && level > Level::debug) {
    const auto* const mark = options_.colour ? "\x1b[33mwarning:\x1b[0m " : "warning: ";
    const auto line = wrap((level == Level::warning ? mark : "") + text, options_.width);
    if (print_)
      print_(line);
    else
      *options_.console << line << '\n' << std::flush;
  }
  if (file_.is_open()) {
    const double now = wall_time();
    file_ << fmt::format("[{:%Y-%m-%d %H:%M:%S}.{:03}] [{}] {}\n",
                         fmt::localtime(static_cast<std::time_t>(now)),
                         static_cast<std::int64_t>(1000 * now) % 1000, name, text);
    if (level > Level::debug) file_ << std::flush;
    if (!file_) {
      file_.close();
      if (options_.console != nullptr)
        *options_.console << fmt::format(
            "warning: lines can't be written to {} any more: its disk may be full\n",
            options_.file.string());
    }
  }
}

void RunLog::route_console_through(std::function<void(std::string_view)> print) {
  const std::lock_guard lock(mutex_);
  print_ = std::move(print);
}

}  // namespace kolo
