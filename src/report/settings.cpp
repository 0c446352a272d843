#include "report/settings.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

// A few lines of aliases can stand for billions of values, and an alias can contain itself.
constexpr std::size_t most_settings = 20000;
constexpr int deepest_level = 32;

std::string text_of(const YAML::Node& scalar) {
  return scalar.IsNull() ? "null" : scalar.Scalar();
}

bool is_list_of_values(const YAML::Node& node) {
  return node.IsSequence() && std::all_of(node.begin(), node.end(), [](const YAML::Node& item) {
           return item.IsScalar() || item.IsNull();
         });
}

std::string list_text(const YAML::Node& list) {
  std::vector<std::string> items;
  for (const auto& item : list) items.push_back(text_of(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

void flatten(const YAML::Node& node, const std::string& key, int level, Settings& settings) {
  if (level > deepest_level || settings.size() >= most_settings) {
    throw Error(
        fmt::format("more than {} values or {} levels of nesting", most_settings, deepest_level));
  }
  const auto key_below = [&](const std::string& name) {
    return key.empty() ? name : fmt::format("{}.{}", key, name);
  };
  if (is_list_of_values(node)) {
    settings.emplace_back(key, list_text(node));
  } else if (node.IsSequence()) {
    for (std::size_t i = 0; i < node.size(); ++i)
      flatten(node[i], key_below(std::to_string(i)), level + 1, settings);
  } else if (node.IsMap() && node.size() > 0) {
    for (const auto& entry : node) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      flatten(entry.second, key_below(name), level + 1, settings);
    }
  } else {
    settings.emplace_back(key, node.IsMap() ? "{}" : text_of(node));
  }
}

}  // namespace

Settings read_settings(const std::filesystem::path& path) {
  try {
    const YAML::Node document = YAML::Load(read_text_file(path));
    if (!document.IsMap()) throw Error("expected keys and values");
    Settings settings;
    flatten(document, "", 0, settings);
    return settings;
  } catch (const YAML::Exception& error) {
    throw Error(fmt::format("{} is no YAML: {}", path.string(), error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace kolo
