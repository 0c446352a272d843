#pragma once

#include <filesystem>
#include <string>
#include <vector>

// Output of kolo eval: text, JSON and pictures.
namespace kolo {

struct RunEvaluation;

// Text for people: totals, a line for each class or target, and the confusion matrix if it fits 80
// columns.
[[nodiscard]] std::string to_text(const RunEvaluation& report);

// JSON for programs, with the whole matrix.
[[nodiscard]] std::string to_json(const RunEvaluation& report);

// Drawings of an earlier evaluation, which are replaced. InputError if kolo has not drawn a file
// with such a name.
[[nodiscard]] std::vector<std::filesystem::path> earlier_pictures(
    const std::filesystem::path& folder);

// Draws into the folder, in place of an earlier evaluation's drawings, and returns what it has
// written: sample-N.png for sample N. An image, or of a network of fields a plane through the
// middle of each channel of the input, of the target, of the output, and of the difference.
// Captions say what the samples were taken for. Error: writing failed.
std::vector<std::filesystem::path> draw_evaluation(const RunEvaluation& evaluation,
                                                   const std::filesystem::path& folder);

}  // namespace kolo
