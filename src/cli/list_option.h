#pragma once

#include <charconv>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "kolo/base/error.h"

namespace kolo {

// "1,2,4": one word of the command line, unlike CLI11's lists, which take all words that follow, a
// configuration's settings among them. InputError, when the program runs, names what is no number.
template <typename T>
CLI::Option* add_list_option(CLI::App& command, const std::string& name, std::vector<T>& values,
                             const std::string& description) {
  const auto read = [&values, name](const std::string& text) {
    values.clear();
    for (const std::string& word : CLI::detail::split(text, ',')) {
      if constexpr (std::is_same_v<T, std::string>) {
        values.push_back(word);
      } else {
        T value{};
        const char* const end = word.data() + word.size();
        const auto [stopped, error] = std::from_chars(word.data(), end, value);
        if (error != std::errc{} || stopped != end)
          throw InputError(
              fmt::format("{}: \"{}\" in \"{}\" is no number; give numbers with commas "
                          "between them, without blanks",
                          name.substr(0, name.find(',')), word, text));
        values.push_back(value);
      }
    }
  };
  return command.add_option_function<std::string>(name, read, description);
}

}  // namespace kolo
