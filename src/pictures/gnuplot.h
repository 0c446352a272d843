#pragma once

#include <string>

#include "kolo/pictures/draw_figures.h"

// The program that draws.
namespace kolo {

// How a script begins: what is drawn to, `width` x `height` pixels (of PNG twice as many).
[[nodiscard]] std::string gnuplot_terminal(int width, int height, FigureFormat format);

// Runs a script, whose picture goes to gnuplot's standard output, and returns the picture with
// kolo's mark. `name`: what an error calls it. InputError where there is no gnuplot, Error where it
// failed, with what it said.
[[nodiscard]] std::string run_gnuplot(const std::string& script, const std::string& name,
                                      FigureFormat format);

}  // namespace kolo
