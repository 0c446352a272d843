#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What a progress bar looks like, apart from when it is drawn.
namespace kolo {

// Columns that UTF-8 text takes, every character taken for one column wide.
[[nodiscard]] std::size_t display_width(std::string_view text);

// A bar of `cells` columns; `fraction` from 0 to 1.
[[nodiscard]] std::string render_bar(double fraction, std::size_t cells, bool unicode);

// The texts of a line, without the bar. Empty ones are left out.
struct ProgressTexts {
  std::string label, percent, steps, rate, loss, time;
};

// All texts and the bar in at most `width` columns; what does not fit goes, the least needed first:
// steps, rate, bar, loss, time.
[[nodiscard]] std::string render_line(const ProgressTexts& texts, double fraction,
                                      std::size_t width, bool unicode);

// The texts alone, of any length.
[[nodiscard]] std::string render_plain(const ProgressTexts& texts);

}  // namespace kolo
