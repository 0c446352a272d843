#pragma once

#include <filesystem>
#include <vector>

#include "kolo/pictures/draw_figures.h"
#include "kolo/run/evaluate_run.h"

namespace kolo {

// The samples of an evaluation that are drawn where nothing else is said.
inline constexpr std::int64_t usual_samples = 12;

// InputError: there is no gnuplot, the folder can't be written, or a file there is in the way.
void require_room_for_pictures(const std::filesystem::path& folder, FigureFormat format);

// Draws into the folder, and returns what it has written:
//   predictions   images with what they were taken for, and what they are where that is another
//   fields-N      of a network of fields sample N: a plane through the middle of each channel of
//                 the input, of the target, of the output, and of the difference
//   confusion     the confusion matrix
// Older drawings of kolo's are replaced. Error: drawing or writing failed.
std::vector<std::filesystem::path> draw_evaluation(const RunEvaluation& evaluation,
                                                   const std::filesystem::path& folder,
                                                   FigureFormat format);

}  // namespace kolo
