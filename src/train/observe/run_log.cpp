#include "kolo/train/observe/run_log.h"

#include <cstdlib>
#include <mutex>
#include <ostream>
#include <vector>

#include <unistd.h>

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>

#include "kolo/base/error.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

// The console's lines: what a person reads as it happens, so no time stamps, and a level only where
// it matters.
class ConsoleSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  ConsoleSink(std::ostream& stream, bool colour, int width)
      : stream_(stream), colour_(colour), width_(width) {}

  void print_with(std::function<void(std::string_view)> print) {
    const std::lock_guard lock(mutex_);
    print_ = std::move(print);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string line = mark(message.level);
    line.append(message.payload.data(), message.payload.size());
    line = wrap(line, width_);
    if (print_) {
      print_(line);
    } else {
      stream_ << line << '\n' << std::flush;
    }
  }
  void flush_() override { stream_.flush(); }

 private:
  [[nodiscard]] std::string mark(spdlog::level::level_enum level) const {
    if (level == spdlog::level::warn) return colour_ ? "\x1b[33mwarning:\x1b[0m " : "warning: ";
    if (level >= spdlog::level::err) return colour_ ? "\x1b[31merror:\x1b[0m " : "error: ";
    return {};
  }

  std::ostream& stream_;
  bool colour_;
  int width_;
  std::function<void(std::string_view)> print_;
};

spdlog::level::level_enum console_level(int verbosity) {
  if (verbosity < 0) return spdlog::level::warn;
  return verbosity == 0 ? spdlog::level::info : spdlog::level::debug;
}

spdlog::sink_ptr make_file_sink(const std::filesystem::path& path, int verbosity) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
    sink->set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%l] %v");
    sink->set_level(verbosity > 0 ? spdlog::level::debug : spdlog::level::info);
    return sink;
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(fmt::format("log: cannot open {}: {}", path.string(), error.what()));
  }
}

}  // namespace

struct RunLog::Implementation {
  std::shared_ptr<ConsoleSink> console;
  std::unique_ptr<spdlog::logger> logger;
};

bool detect_colour(int descriptor) {
  const char* terminal = std::getenv("TERM");
  const char* objection = std::getenv("NO_COLOR");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  const bool is_unwanted = objection != nullptr && *objection != '\0';
  return ::isatty(descriptor) == 1 && !is_dumb && !is_unwanted;
}

RunLog::RunLog(const RunLogOptions& options) : implementation_(std::make_unique<Implementation>()) {
  std::vector<spdlog::sink_ptr> sinks;
  if (options.console != nullptr) {
    implementation_->console =
        std::make_shared<ConsoleSink>(*options.console, options.colour, options.width);
    implementation_->console->set_level(console_level(options.verbosity));
    sinks.push_back(implementation_->console);
  }
  if (!options.file.empty()) sinks.push_back(make_file_sink(options.file, options.verbosity));
  implementation_->logger = std::make_unique<spdlog::logger>("kolo", sinks.begin(), sinks.end());
  implementation_->logger->set_level(sinks.empty() ? spdlog::level::off : spdlog::level::debug);
  implementation_->logger->flush_on(spdlog::level::info);
}

RunLog::RunLog(RunLog&&) noexcept = default;
RunLog& RunLog::operator=(RunLog&&) noexcept = default;
RunLog::~RunLog() = default;

void RunLog::write(Level level, fmt::string_view format, fmt::format_args arguments) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info,
                                                  spdlog::level::warn, spdlog::level::err};
  const auto chosen = levels[static_cast<std::size_t>(level)];
  auto& logger = *implementation_->logger;
  if (logger.should_log(chosen)) {
    logger.log(chosen, spdlog::string_view_t(fmt::vformat(format, arguments)));
  }
}

void RunLog::route_console_through(std::function<void(std::string_view)> print) {
  if (implementation_->console) implementation_->console->print_with(std::move(print));
}

}  // namespace kolo
