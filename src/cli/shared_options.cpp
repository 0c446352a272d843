#include "cli/shared_options.h"

#include "cli/option_values.h"

namespace kolo {

ConfigSource ConfigOptions::source() const {
  ConfigSource source{.file = file, .name = std::nullopt, .overrides = settings};
  if (!name.empty()) source.name = name;
  return source;
}

void add_settings(CLI::App& command, std::vector<std::string>& settings,
                  const std::string& description) {
  command.add_option(settings_name, settings, description)->type_name("");
}

void add_config_options(CLI::App& command, ConfigOptions& options) {
  add_text_option(command, "file", options.file, "the name of a YAML file",
                  "The configuration, a YAML file")
      ->required()
      ->type_name("FILE");
  add_settings(command, options.settings, "key.sub=value: settings that replace the file's");
  add_text_option(command, "--config", options.name, "the name of a configuration in the file",
                  "The configuration to use in a file that holds several")
      ->type_name("NAME");
}

void add_rank_options(CLI::App& command, RankOptions& options, const std::string& description) {
  add_number_option(command, "-n,--ranks", options.ranks, {1, most_ranks}, description)
      ->type_name("RANKS");
  command.add_flag("--oversubscribe", options.oversubscribe,
                   "Allow more ranks than the machine has cores");
}

}  // namespace kolo
