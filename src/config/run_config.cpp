#include "kolo/config/run_config.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "config/batch_sizes.h"
#include "config/checks.h"
#include "config/defaults.h"
#include "config/schema.h"
#include "config/tree_of.h"
#include "kolo/base/error.h"
#include "kolo/base/suggest.h"
#include "settings/environment.h"
#include "settings/section.h"
#include "settings/tree_writer.h"
#include "settings/yaml/override.h"
#include "settings/yaml/yaml_reader.h"
#include "settings/yaml/yaml_writer.h"

namespace kolo {

namespace {

bool is_known_key(const std::string& key) {
  const auto known = known_keys<RunConfig>();
  return std::find(known.begin(), known.end(), key) != known.end();
}

bool has_known_key(const ConfigValue& mapping) {
  return std::any_of(mapping.entries.begin(), mapping.entries.end(),
                     [](const ConfigEntry& entry) { return is_known_key(entry.key); });
}

// The named configurations of a file: mappings at its top level that hold what a configuration
// holds, which neither a misspelt section nor a template for one does.
std::vector<std::string> names_in(const ConfigValue& root) {
  std::vector<std::string> names;
  for (const ConfigEntry& entry : root.entries) {
    if (!is_known_key(entry.key) && has_known_key(entry.value)) names.push_back(entry.key);
  }
  return names;
}

ConfigValue choose_named(ConfigValue root, const std::string& file, const std::string& name) {
  ConfigValue* chosen = is_known_key(name) ? nullptr : root.find(name);
  if (chosen != nullptr && chosen->kind == ConfigValue::Kind::mapping) return std::move(*chosen);
  const auto names = names_in(root);
  if (names.empty()) {
    throw InputError(fmt::format(
        "{}: the file holds a single configuration, none of the name {}; leave --config out", file,
        quote(name)));
  }
  const std::string near = suggestion(name, names);
  throw InputError(fmt::format("{}: no configuration of the name {}{} The file has: {}", file,
                               quote(name), near.empty() ? "." : near, join(names)));
}

ConfigValue choose(ConfigValue root, const ConfigSource& source) {
  if (source.name) return choose_named(std::move(root), source.file.string(), *source.name);
  const auto names = names_in(root);
  if (!names.empty() && !has_known_key(root)) {
    throw InputError(
        fmt::format("{}: the file holds several configurations; choose one with --config NAME: {}",
                    source.file.string(), join(names)));
  }
  return root;
}

void collect_places(const ConfigValue& value, const std::string& path,
                    std::map<std::string, std::string>& places) {
  places[path] = value.place;
  for (const ConfigEntry& entry : value.entries)
    collect_places(entry.value, path.empty() ? entry.key : path + "." + entry.key, places);
}

std::string default_output_dir(const ConfigSource& source) {
  const std::string stem = source.file.stem().string();
  return source.name ? fmt::format("results/{}-{}", stem, *source.name)
                     : fmt::format("results/{}", stem);
}

}  // namespace

std::string KeyPlaces::before(std::string_view key) const {
  for (std::string_view known = key;; known = known.substr(0, known.rfind('.'))) {
    if (const auto found = places_.find(std::string(known)); found != places_.end())
      return fmt::format("{}: {}: ", found->second, key);
    if (known.empty()) return fmt::format("{}: ", key);
    if (known.find('.') == std::string_view::npos) known = {};
  }
}

void refuse_setting(const RunConfig& config, std::string_view key, std::string_view reason) {
  throw InputError(fmt::format("{}{}", config.places.before(key), reason));
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const auto& setting : known_settings<RunConfig>()) names.push_back(setting.name);
  return names;
}

std::string nearest_setting(std::string_view word) {
  return nearest_setting(word, known_settings<RunConfig>());
}

RunConfig load_run_config(const ConfigSource& source) {
  const auto settings = known_settings<RunConfig>();
  ConfigValue root = choose(read_yaml_file(source.file), source);
  for (const std::string& text : source.overrides) apply_override(root, text, settings);
  for (const auto& [option, text] : source.options) apply_override(root, text, settings, option);
  if (!source.output_dir.empty()) set_text(root, "output_dir", escape_path(source.output_dir));
  settle_batch_sizes(root);
  RunConfig config;
  std::map<std::string, std::string> places;
  collect_places(root, "", places);
  config.places = KeyPlaces(std::move(places));
  SectionReader::read_section(root, "", config, settings);
  check_run_config(config, root);
  fill_defaults(config);
  if (config.output_dir.empty()) config.output_dir = default_output_dir(source);
  return config;
}

ConfigValue tree_of(const RunConfig& config) {
  RunConfig copy = config;  // the key table visits what it may also fill
  return TreeWriter::tree_of_section(copy);
}

std::string to_yaml(const RunConfig& config) {
  return write_yaml(tree_of(config));
}

}  // namespace kolo
