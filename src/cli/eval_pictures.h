#pragma once

#include <filesystem>
#include <vector>

#include "kolo/run/evaluate_run.h"

namespace kolo {

// The samples of an evaluation that are drawn where nothing else is said.
inline constexpr std::int64_t usual_samples = 12;

// InputError: the folder can't be written, or a file there is in the way.
void require_room_for_pictures(const std::filesystem::path& folder);

// Draws into the folder, in place of an earlier evaluation's drawings, and returns what it has
// written:
//   sample-N.png   sample N: an image, or of a network of fields a plane through the middle of each
//                  channel of the input, of the target, of the output, and of the difference
// Captions say what the samples were taken for. Error: writing failed.
std::vector<std::filesystem::path> draw_evaluation(const RunEvaluation& evaluation,
                                                   const std::filesystem::path& folder);

}  // namespace kolo
