#pragma once

#include <string>
#include <vector>

#include "kolo/observe/study.h"
#include "kolo/report/figure.h"
#include "kolo/report/run_figures.h"

namespace kolo {

// "linear, warm-up of 3 epochs", "unscaled, no warm-up": how a point's learning rate goes, in
// words.
[[nodiscard]] std::string combination_name(const StudyPoint& point);

// What a study shows: in one group how it scales (throughput and efficiency beside the ideal, time
// per epoch, where a step's time goes), in one what becomes of the accuracy, or the loss, for each
// combination of learning-rate scaling and warm-up. Everything against ranks. What is predicted is
// dashed and named so. Points that gave no results are left out; a group without figures is not
// there.
//
// Throughput does not depend on the learning rate: points of the same number of ranks are taken
// together, as their mean, and the deviation within and between them.
[[nodiscard]] std::vector<FigureGroup> study_figures(const Study& study);

}  // namespace kolo
