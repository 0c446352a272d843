#include "settings/known_settings.h"

#include <algorithm>

#include "kolo/base/suggest.h"

namespace kolo {

std::string nearest_setting(std::string_view word, const KnownSettings& known) {
  const bool is_whole = word.find('.') != std::string_view::npos;
  std::vector<std::string> names;
  for (const auto& setting : known)
    names.push_back(is_whole ? setting.name : setting.name.substr(setting.name.rfind('.') + 1));
  auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) found = std::find(names.begin(), names.end(), nearest(word, names));
  return found == names.end() ? "" : known[static_cast<std::size_t>(found - names.begin())].name;
}

}  // namespace kolo
