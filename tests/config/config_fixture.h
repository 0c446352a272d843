#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "config/schema.h"
#include "kolo/base/error.h"
#include "kolo/config/run_config.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace kolo::testing {

// The names of all settings, as the command line takes them: "training.batch_size".
inline std::vector<std::string> setting_names() {
  RunConfig config;
  const auto models = built_in_models();
  RunSections sections{config, models};
  std::vector<std::string> names;
  for (const auto& setting : known_settings(sections)) names.push_back(setting.name);
  return names;
}

// Configurations from texts, in a file named run.yaml.
class ConfigTest : public ::testing::Test {
 protected:
  using Overrides = std::vector<std::string>;

  // The keys that every configuration needs, on lines 1 to 3.
  static constexpr const char* required =
      "data: {name: fashion_mnist}\n"
      "model: {name: mnist_net}\n"
      "optimizer: {name: sgd}\n";

  [[nodiscard]] ConfigSource source(const std::string& text, Overrides overrides = {},
                                    std::optional<std::string> name = {}) const {
    return {folder_.write("run.yaml", text), std::move(name), std::move(overrides)};
  }

  [[nodiscard]] RunConfig load(const std::string& text, Overrides overrides = {},
                               std::optional<std::string> name = {}) const {
    return load_run_config(source(text, std::move(overrides), std::move(name)));
  }

  // The value of a setting as config.yaml has it; "none" where it has no such key.
  [[nodiscard]] static std::string value_of(const RunConfig& config, const std::string& setting) {
    for (const auto& [key, value] : settings_of(config))
      if (key == setting) return value;
    return "none";
  }

  // The message of the InputError, without the folder.
  [[nodiscard]] std::string error(const std::string& text, Overrides overrides = {},
                                  std::optional<std::string> name = {}) const {
    auto message = message_of<InputError>([&] { (void)load(text, overrides, name); });
    const std::string prefix = folder_.path().string() + "/";
    for (auto at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
      message.erase(at, prefix.size());
    }
    return message;
  }

  // The message for lines that follow the required keys, and so begin on line 4.
  [[nodiscard]] std::string error_after_required(const std::string& lines,
                                                 Overrides overrides = {}) const {
    return error(required + lines, std::move(overrides));
  }

  TemporaryFolder folder_;
};

}  // namespace kolo::testing
