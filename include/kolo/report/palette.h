#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace kolo {

// A colour of figures, on paper and on a screen at night.
struct PaletteColour {
  std::string_view light, dark;
};

// Those of runs and lines are Okabe and Ito's (https://jfly.uni-koeln.de/color), which people of
// any colour vision tell apart, some a little darker to be read on white. A ninth run has the first
// one's again, with other marks.
inline constexpr std::array<PaletteColour, 8> run_palette{{{"#0072b2", "#4ba6e0"},
                                                           {"#d55e00", "#f08a3c"},
                                                           {"#009e73", "#2fc79c"},
                                                           {"#b3588f", "#dd8fbf"},
                                                           {"#e69f00", "#f2bd4a"},
                                                           {"#56b4e9", "#8ccff5"},
                                                           {"#5b5b5b", "#b9b9b9"},
                                                           {"#8c7a00", "#e5da55"}}};

// What is no run has a negative place: place -1 is the first of these.
inline constexpr std::array<PaletteColour, 4> other_palette{{{"#7d9bb8", "#6d8fb0"},
                                                             {"#e8b04a", "#d9a440"},
                                                             {"#b5485d", "#d0647a"},
                                                             {"#8a8f98", "#878d97"}}};
inline constexpr int compute_colour = -1;
inline constexpr int data_wait_colour = -2;
inline constexpr int communication_colour = -3;
inline constexpr int ideal_colour = -4;

// The place in the palette of the run with this number.
[[nodiscard]] constexpr int run_colour(std::size_t run) {
  return static_cast<int>(run);
}

[[nodiscard]] constexpr const PaletteColour& colour_at(int place) {
  const auto number = static_cast<std::size_t>(place < 0 ? -1 - place : place);
  return place < 0 ? other_palette.at(number) : run_palette[number % run_palette.size()];
}

}  // namespace kolo
