#include "comm/environment.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return std::string(value);
}

[[noreturn]] void refuse(const char* name, const std::string& value, const char* accepted) {
  throw InputError(
      fmt::format("the environment variable {} is \"{}\"; expected {}", name, value, accepted));
}

void read_switch(const char* name, bool& target) {
  const auto value = variable(name);
  if (!value) return;
  if (*value == "on" || *value == "1")
    target = true;
  else if (*value == "off" || *value == "0")
    target = false;
  else
    refuse(name, *value, "on, off, 1 or 0");
}

void read_seconds(const char* name, std::chrono::duration<double>& target) {
  const auto value = variable(name);
  if (!value) return;
  char* end = nullptr;
  const double seconds = std::strtod(value->c_str(), &end);
  if (end == value->c_str() || *end != 0 || !std::isfinite(seconds) || seconds < 0 || seconds > 1e9)
    refuse(name, *value, "seconds, 0 or more (0: never)");
  target = std::chrono::duration<double>(seconds);
}

}  // namespace

MpiOptions with_environment(MpiOptions options) {
  read_switch("KOLO_CHECKED", options.checked);
  read_switch("KOLO_WATCH", options.watch.enabled);
  read_seconds("KOLO_WATCH_WARNING", options.watch.warning);
  read_seconds("KOLO_WATCH_LIMIT", options.watch.limit);
  if (const auto folder = variable("KOLO_WATCH_FOLDER")) options.watch.folder = *folder;
  return options;
}

}  // namespace kolo
