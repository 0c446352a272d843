#include "observe/json_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

nlohmann::ordered_json read_json_file(const std::filesystem::path& path, std::string_view advice) {
  const std::string text = read_text_file(path);
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::ordered_json::parse_error& error) {
    const auto place = static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    throw InputError(fmt::format(
        "{}:{}: {}; {}", path.string(), 1 + std::count(text.begin(), text.begin() + place, '\n'),
        error.byte > text.size() ? "the file ends too early: it was cut off"
                                 : "the file is damaged here: expected JSON",
        advice));
  } catch (const nlohmann::ordered_json::exception& error) {  // a number like 1e400
    throw InputError(fmt::format("{}: {}; {}", path.string(), in_plain_words(error), advice));
  }
}

}  // namespace kolo
