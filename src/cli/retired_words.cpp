#include "cli/retired_words.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kolo {

namespace {

constexpr std::pair<std::string_view, std::string_view> retired_words[] = {
    {"reference",
     "is no command any more; kolo sweep CONFIG seed=1,2,3 --target NUMBER holds trainings against "
     "a published number"}};

}  // namespace

std::string_view retired_word(std::string_view name) {
  const auto found =
      std::ranges::find(retired_words, name, [](const auto& word) { return word.first; });
  return found == std::end(retired_words) ? std::string_view() : found->second;
}

}  // namespace kolo
