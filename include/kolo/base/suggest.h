#pragma once

#include <span>
#include <string>
#include <string_view>

// Words for messages about unknown names: "unknown model "mnist_nett", did you mean "mnist_net"?".
namespace kolo {

// The known word that `word` most likely stands for, or "" when none is near. The distance counts
// inserted, deleted, replaced and swapped neighbouring letters, regardless of case
// (Damerau-Levenshtein, each letter edited at most once); near is at most the larger of 2 and a
// third of the word, and less than the whole word. Of equally near words the first one is returned.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> known);

// `"abc"`: control characters replaced and long text cut, so that a message stays one readable
// line.
[[nodiscard]] std::string quote(std::string_view text);

// "a, b, c"; "" for no words.
[[nodiscard]] std::string join(std::span<const std::string> words,
                               std::string_view separator = ", ");

}  // namespace kolo
