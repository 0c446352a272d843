#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "kolo/config/run_config.h"
#include "kolo/launch/launch_ranks.h"

// Options that several commands have.
namespace kolo {

// Which configuration: the file, --config, and key.sub=value.
struct ConfigOptions {
  std::filesystem::path file;
  std::string name;
  std::vector<std::string> settings;

  [[nodiscard]] ConfigSource source() const;
};

// What key.sub=value is called among a command's options: it has a place, not a name.
inline constexpr const char* settings_name = "settings";

void add_settings(CLI::App& command, std::vector<std::string>& settings,
                  const std::string& description);

void add_config_options(CLI::App& command, ConfigOptions& options);

inline constexpr int most_ranks = 1 << 20;
inline constexpr int most_restarts = 1000000;

// How many ranks to start: -n and --oversubscribe.
struct RankOptions {
  std::optional<int> ranks;
  bool oversubscribe = false;

  [[nodiscard]] bool are_many() const { return ranks.value_or(1) > 1; }
};

// What starts the ranks: this program again, with the same words.
[[nodiscard]] LaunchRequest launch_request(const RankOptions& options,
                                           const std::vector<std::string>& words,
                                           const RunConfig& config);

// `description`: of -n.
void add_rank_options(CLI::App& command, RankOptions& options, const std::string& description);

// "--resume best" in a command line becomes "--resume=best", and so on, and "--resume" alone
// "--resume=newest"; a word after it that is no checkpoint's name (a YAML file, a setting, an
// option) stays for itself.
void give_resume_its_value(std::vector<std::string>& words);

// The command line of `kolo train`, program and all, becomes one that goes on from the newest
// checkpoint.
void resume_newest(std::vector<std::string>& words);

}  // namespace kolo
