#include "cli/shared_options.h"

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

ConfigSource ConfigOptions::source() const {
  ConfigSource source{.file = file, .name = std::nullopt, .overrides = overrides};
  if (!name.empty()) source.name = name;
  return source;
}

void add_config_options(CLI::App& command, ConfigOptions& options) {
  command.add_option("file", options.file, "The configuration, a YAML file")
      ->required()
      ->type_name("FILE");
  command
      .add_option("settings", options.overrides, "key.sub=value: settings that replace the file's")
      ->type_name("");
  command
      .add_option("--config", options.name, "The configuration to use in a file that holds several")
      ->type_name("NAME");
}

void RankOptions::check() const {
  if (ranks && *ranks < 1)
    throw InputError(fmt::format("-n {}: the number of ranks must be at least 1", *ranks));
}

void add_rank_options(CLI::App& command, RankOptions& options, const std::string& description) {
  command.add_option("-n,--ranks", options.ranks, description)->type_name("RANKS");
  command.add_flag("--oversubscribe", options.oversubscribe,
                   "Allow more ranks than the machine has cores");
}

}  // namespace kolo
