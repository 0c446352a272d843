#include "comm/job_options.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "kolo/base/checked.h"

namespace kolo {

std::string_view name_of(ThreadLevel level) {
  constexpr std::string_view names[] = {"single", "funneled", "serialized", "multiple"};
  return names[static_cast<std::size_t>(level)];
}

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
  bool are_launchers_checked = options.launcher_check != LauncherCheck::off;
  read_switch("KOLO_LAUNCHER_CHECK", are_launchers_checked);
  if (!are_launchers_checked)
    options.launcher_check = LauncherCheck::off;
  else if (options.launcher_check == LauncherCheck::off)
    options.launcher_check = LauncherCheck::certain;
  read_switch("KOLO_WATCH", options.watch.enabled);
  read_seconds("KOLO_WATCH_WARNING", options.watch.warning);
  read_seconds("KOLO_WATCH_LIMIT", options.watch.limit);
  if (const auto folder = variable("KOLO_WATCH_FOLDER")) options.watch.folder = *folder;
  if (const auto channel = variable("KOLO_DEVICE_CHANNEL"))
    options.devices.channel =
        named<DeviceChannelKind>("the environment", "KOLO_DEVICE_CHANNEL", *channel);
  return options;
}

namespace {

// Options that decide collectives, as plain numbers.
struct Settings {
  std::int32_t checked = 0, watch = 0, shared_memory = 0, nodes = 0;
  double warning = 0, limit = 0;
  std::int64_t largest_count = 0, staging_bytes = 0, whole_limit_bytes = 0;
  std::int64_t device_channel = 0, device_staging_bytes = 0;
};

Settings settings_of(const MpiOptions& options) {
  return {.checked = options.checked,
          .watch = options.watch.enabled,
          .shared_memory = static_cast<std::int32_t>(options.shared_memory),
          .nodes = narrow<std::int32_t>(options.ranks_on_nodes.size()),
          .warning = options.watch.warning.count(),
          .limit = options.watch.limit.count(),
          .largest_count = options.largest_count,
          .staging_bytes = narrow<std::int64_t>(options.staging_bytes),
          .whole_limit_bytes = narrow<std::int64_t>(options.whole_limit_bytes),
          .device_channel = static_cast<std::int64_t>(options.devices.channel),
          .device_staging_bytes = narrow<std::int64_t>(options.devices.staging_bytes)};
}

void put_into(MpiOptions& options, const Settings& settings) {
  options.checked = settings.checked != 0;
  options.watch.enabled = settings.watch != 0;
  options.watch.warning = std::chrono::duration<double>(settings.warning);
  options.watch.limit = std::chrono::duration<double>(settings.limit);
  options.shared_memory = static_cast<SharedMemory>(settings.shared_memory);
  options.largest_count = settings.largest_count;
  options.staging_bytes = static_cast<std::size_t>(settings.staging_bytes);
  options.whole_limit_bytes = static_cast<std::size_t>(settings.whole_limit_bytes);
  options.devices.channel = static_cast<DeviceChannelKind>(settings.device_channel);
  options.devices.staging_bytes = static_cast<std::size_t>(settings.device_staging_bytes);
}

}  // namespace

MpiOptions with_options_of_rank_0(const BroadcastBytes& broadcast, MpiOptions own) {
  Settings settings = settings_of(own);
  broadcast(std::as_writable_bytes(std::span(&settings, 1)));
  put_into(own, settings);
  own.ranks_on_nodes.resize(static_cast<std::size_t>(settings.nodes));
  broadcast(std::as_writable_bytes(std::span(own.ranks_on_nodes)));
  return own;
}

}  // namespace kolo
