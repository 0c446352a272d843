#include "kolo/config/run_config.h"

#include <fmt/format.h>

#include "config/schema.h"
#include "config/settle.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "settings/section.h"
#include "settings/value.h"
#include "settings/yaml/yaml.h"

namespace kolo {

namespace {

KnownSettings all_settings(const ModelCatalogue& models) {
  RunConfig config;
  RunSections sections{config, models};
  return known_settings(sections);
}

bool is_known_key(const std::string& key) {
  RunConfig config;
  const ModelCatalogue none;
  RunSections sections{config, none};
  return std::ranges::count(keys_of(known_settings(sections)), key) > 0;
}

bool has_known_key(const ConfigValue& mapping) {
  return std::ranges::any_of(mapping.entries, is_known_key, &ConfigEntry::key);
}

// Names of a file's configurations: mappings at its top level with sections of a configuration,
// which neither a misspelt section nor a template for one has.
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

void collect_origins(const ConfigValue& value, const std::string& path,
                     std::map<std::string, std::string>& origins) {
  origins[path] = value.origin;
  for (const ConfigEntry& entry : value.entries)
    collect_origins(entry.value, path.empty() ? entry.key : path + "." + entry.key, origins);
}

std::string default_output_dir(const ConfigSource& source) {
  std::string folder = fmt::format("results/{}", source.file.stem().string());
  for (const auto& part : {source.name.value_or(""), source.job})
    if (!part.empty()) folder += "-" + part;
  return folder;
}

}  // namespace

void refuse_setting(const RunConfig& config, std::string_view key, std::string_view reason) {
  std::string known(key);
  auto found = config.origins.find(known);
  while (found == config.origins.end() && !known.empty()) {
    const auto dot = known.rfind('.');
    known.resize(dot == std::string::npos ? 0 : dot);
    found = config.origins.find(known);
  }
  const auto where = found == config.origins.end() ? "" : found->second + ": ";
  throw InputError(fmt::format("{}{}: {}", where, key, reason));
}

RefuseKey refuse_in(const RunConfig& config, std::string_view section) {
  return [&config, section](std::string_view key, std::string_view reason) {
    refuse_setting(config, fmt::format("{}.{}", section, key), reason);
  };
}

std::vector<std::string> input_paths() {
  std::vector<std::string> names;
  for (const auto& setting : all_settings(built_in_models()))
    if (setting.is_path && setting.name != "output_dir") names.push_back(setting.name);
  return names;
}

std::string nearest_setting(std::string_view word) {
  return nearest_setting(word, all_settings(built_in_models()));
}

RunConfig load_run_config(const ConfigSource& source, const ModelCatalogue& models) {
  const auto settings = all_settings(models);
  ConfigValue root = choose(read_yaml_file(source.file), source);
  if (is_course_file(root))
    root = translate_course_file(root, source.name.value_or(source.file.stem().string()));
  for (const std::string& text : source.overrides) apply_override(root, text);
  for (const auto& [option, text] : source.options) apply_override(root, text, option);
  if (!source.output_dir.empty()) set_text(root, "output_dir", escape_path(source.output_dir));
  settle_batch_sizes(root);
  RunConfig config;
  collect_origins(root, "", config.origins);
  RunSections sections{config, models};
  SectionReader::read_section(root, "", sections, settings);
  check_run_config(config, models);
  fill_defaults(config, models);
  if (config.output_dir.empty()) config.output_dir = default_output_dir(source);
  return config;
}

ConfigValue tree_of(const RunConfig& config) {
  RunConfig copy = config;  // the key table visits what it may also fill
  const auto models = built_in_models();
  RunSections sections{copy, models};
  return TreeWriter::tree_of_section(sections);
}

std::string to_yaml(const RunConfig& config) {
  return write_yaml(tree_of(config));
}

namespace {

std::string value_of(const Settings& settings, const std::string& key) {
  const auto found = std::ranges::find(settings, key, &Settings::value_type::first);
  return found == settings.end() ? std::string(unset_text) : found->second;
}

}  // namespace

Settings settings_of(const RunConfig& config) {
  return flattened(tree_of(config));
}

std::vector<SettingChange> changes_between(const RunConfig& before, const RunConfig& now) {
  const auto earlier = settings_of(before), later = settings_of(now);
  std::vector<SettingChange> changes;
  const auto compare = [&](const std::string& key) {
    const bool is_known = std::ranges::find(changes, key, &SettingChange::key) != changes.end();
    SettingChange change{key, value_of(earlier, key), value_of(later, key)};
    if (!is_known && change.before != change.now) changes.push_back(std::move(change));
  };
  for (const auto& [key, value] : later) compare(key);
  for (const auto& [key, value] : earlier) compare(key);
  return changes;
}

}  // namespace kolo
