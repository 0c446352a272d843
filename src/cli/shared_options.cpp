#include "cli/shared_options.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/option_values.h"
#include "run/resume.h"

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

LaunchRequest launch_request(const RankOptions& options, const std::vector<std::string>& words,
                             const RunConfig& config) {
  LaunchRequest request{.ranks = options.ranks.value_or(1),
                        .oversubscribe = options.oversubscribe,
                        .command = {own_program()},
                        .threads = config.device.intra_threads,
                        .end_together = true};
  request.command.insert(request.command.end(), words.begin(), words.end());
  return request;
}

void add_rank_options(CLI::App& command, RankOptions& options, const std::string& description) {
  add_number_option(command, "-n,--ranks", options.ranks, {1, most_ranks}, description)
      ->type_name("RANKS");
  command.add_flag("--oversubscribe", options.oversubscribe,
                   "Allow more ranks than the machine has cores");
}

namespace {

constexpr std::string_view resume_option = "--resume";

// A configuration and settings may stand after it as well. An empty word is a choice, so that it
// is refused: a variable of the shell that was not set.
bool is_choice(const std::string& word) {
  const std::filesystem::path path = word;
  std::error_code error;
  return !word.starts_with('-') && word.find('=') == std::string::npos &&
         path.extension() != ".yaml" && path.extension() != ".yml" &&
         !std::filesystem::is_regular_file(path, error);
}

}  // namespace

void give_resume_its_value(std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != resume_option) continue;
    const bool has_choice = i + 1 < words.size() && is_choice(words[i + 1]);
    words[i] += fmt::format("={}", has_choice ? words[i + 1] : newest_checkpoint);
    if (has_choice) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

void resume_newest(std::vector<std::string>& words) {
  give_resume_its_value(words);
  std::erase_if(words, [](const std::string& word) {
    return word.starts_with(fmt::format("{}=", resume_option));
  });
  words.insert(words.begin() + 2, fmt::format("{}={}", resume_option, newest_checkpoint));
}

}  // namespace kolo
