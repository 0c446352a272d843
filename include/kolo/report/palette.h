#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace kolo {

// The colours of figures, on paper and on a screen at night. Those of runs and lines are Okabe and
// Ito's (https://jfly.uni-koeln.de/color), which people of any colour vision tell apart; a ninth
// run has the first one's. After them come those of what is no run.
struct PaletteColour {
  std::string_view light, dark;
};

inline constexpr std::size_t run_colours = 8;
inline constexpr int compute_colour = 8;
inline constexpr int data_wait_colour = 9;
inline constexpr int communication_colour = 10;
inline constexpr int ideal_colour = 11;

inline constexpr std::array<PaletteColour, 12> palette{{{"#0072b2", "#4ba6e0"},
                                                        {"#d55e00", "#f08a3c"},
                                                        {"#009e73", "#2fc79c"},
                                                        {"#b3588f", "#dd8fbf"},
                                                        {"#e69f00", "#f2bd4a"},
                                                        {"#56b4e9", "#8ccff5"},
                                                        {"#5b5b5b", "#b9b9b9"},
                                                        {"#8c7a00", "#e5da55"},
                                                        {"#7d9bb8", "#6d8fb0"},
                                                        {"#e8b04a", "#d9a440"},
                                                        {"#b5485d", "#d0647a"},
                                                        {"#8a8f98", "#878d97"}}};

// The place in the palette of the run with this number.
[[nodiscard]] constexpr int run_colour(std::size_t run) {
  return static_cast<int>(run % run_colours);
}

}  // namespace kolo
