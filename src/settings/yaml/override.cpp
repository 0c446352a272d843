#include "settings/yaml/yaml.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "settings/section.h"

namespace kolo {

namespace {

// What was meant by a word without "=": "n_epochs:3" or "n_epochs 3".
std::string meant_by(std::string_view text, const KnownSettings& settings) {
  const auto end = text.find_first_of(":= ");
  const std::string setting = nearest_setting(text.substr(0, end), settings);
  if (setting.empty()) return {};
  std::string_view value = end == std::string_view::npos ? "" : text.substr(end + 1);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return fmt::format("; did you mean {}={}?", setting, value.empty() ? "VALUE" : value);
}

// Whether key=null gives the setting its default: all but the required ones.
bool has_default(std::string_view name, const KnownSettings& settings) {
  const auto found = std::ranges::find(settings, name, &KnownSetting::name);
  return found != settings.end() && !found->is_required;
}

}  // namespace

void apply_override(ConfigValue& root, const std::string& text, const KnownSettings& settings,
                    std::string_view place) {
  const auto equals = text.find('=');
  const std::string_view keys = std::string_view(text).substr(0, equals);
  const bool has_empty_key = keys.empty() || keys.front() == '.' || keys.back() == '.' ||
                             keys.find("..") != std::string_view::npos;
  if (equals == std::string::npos || has_empty_key) {
    throw InputError(
        fmt::format("{}: expected key=value, for example training.batch_size=32, got {}{}", place,
                    quote(text), text.empty() ? "" : meant_by(text, settings)));
  }
  if (text.find_first_not_of(' ', equals + 1) == std::string::npos) {
    throw InputError(fmt::format("{}: expected a value after {}=, got nothing; {}", place, keys,
                                 has_default(keys, settings)
                                     ? fmt::format("write {}=null for the default", keys)
                                     : "leave it out to keep what the file says"));
  }
  set_value(root, keys, read_yaml_text(text.substr(equals + 1), std::string(place)));
}

void set_text(ConfigValue& root, const std::string& key, const std::string& text) {
  ConfigValue value;
  value.kind = ConfigValue::Kind::scalar;
  value.text = text;
  value.is_quoted = true;
  value.place = command_line;
  set_value(root, key, std::move(value));
}

}  // namespace kolo
