#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "kolo/config/run_config.h"

// Options that several commands have.
namespace kolo {

// Which configuration: the file, --config, and key.sub=value.
struct ConfigOptions {
  std::filesystem::path file;
  std::string name;
  std::vector<std::string> overrides;

  [[nodiscard]] ConfigSource source() const;
};

void add_config_options(CLI::App& command, ConfigOptions& options);

// How many ranks to start: -n and --oversubscribe.
struct RankOptions {
  std::optional<int> ranks;
  bool oversubscribe = false;

  [[nodiscard]] bool are_many() const { return ranks.value_or(1) > 1; }
  // InputError for less than one.
  void check() const;
};

// `description`: of -n.
void add_rank_options(CLI::App& command, RankOptions& options, const std::string& description);

}  // namespace kolo
