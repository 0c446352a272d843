#include "kolo/train/observe/run_log.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <mutex>
#include <ostream>
#include <string_view>

#include <fmt/chrono.h>
#include <unistd.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/train/observe/format.h"

namespace kolo {

struct RunLog::Implementation {
  RunLogOptions options;
  std::ofstream file;
  std::function<void(std::string_view)> print;  // empty: to the console itself
  std::mutex mutex;
};

bool detect_colour(int descriptor) {
  const char* terminal = std::getenv("TERM");
  const char* objection = std::getenv("NO_COLOR");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  const bool is_unwanted = objection != nullptr && *objection != '\0';
  return ::isatty(descriptor) == 1 && !is_dumb && !is_unwanted;
}

RunLog::RunLog(const RunLogOptions& options) : implementation_(std::make_unique<Implementation>()) {
  implementation_->options = options;
  if (options.file.empty()) return;
  std::error_code ignored;  // opening the file tells
  std::filesystem::create_directories(options.file.parent_path(), ignored);
  implementation_->file.open(options.file, std::ios::app);
  if (!implementation_->file)
    throw Error(
        system_error_text(fmt::format("log: cannot open {}", options.file.string()), errno));
}

RunLog::RunLog(RunLog&&) noexcept = default;

RunLog& RunLog::operator=(RunLog&&) noexcept = default;

RunLog::~RunLog() = default;

void RunLog::write(Level level, fmt::string_view format, fmt::format_args arguments) {
  constexpr std::string_view names[] = {"debug", "info", "warning", "error"};
  auto& [options, file, print, mutex] = *implementation_;
  const auto name = names[static_cast<std::size_t>(level)];
  const auto text = fmt::vformat(format, arguments);
  const std::lock_guard lock(mutex);
  if (options.console != nullptr && level > Level::debug) {
    std::string mark;  // only where it matters
    if (level >= Level::warning) mark = fmt::format("{}:", name);
    if (!mark.empty() && options.colour)
      mark = fmt::format("\x1b[{}m{}\x1b[0m", level == Level::warning ? 33 : 31, mark);
    const auto line = wrap(mark.empty() ? text : fmt::format("{} {}", mark, text), options.width);
    if (print)
      print(line);
    else
      *options.console << line << '\n' << std::flush;
  }
  if (file.is_open()) {
    const double now = wall_time();
    file << fmt::format("[{:%Y-%m-%d %H:%M:%S}.{:03}] [{}] {}\n",
                        fmt::localtime(static_cast<std::time_t>(now)),
                        static_cast<std::int64_t>(1000 * now) % 1000, name, text);
    if (level > Level::debug) file << std::flush;
  }
}

void RunLog::route_console_through(std::function<void(std::string_view)> print) {
  const std::lock_guard lock(implementation_->mutex);
  implementation_->print = std::move(print);
}

}  // namespace kolo
