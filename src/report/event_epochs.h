#pragma once

#include <vector>

#include "report/tagged_curve.h"

namespace kolo {

// Fills in the points' epochs where the curves tell them: a scalar named "epoch"; tags whose steps
// are epochs; validations at each step in turn, which can only be epochs; kolo's own tags. Steps
// that turn out to be epochs are no steps any more.
void fill_in_epochs(std::vector<TaggedCurve>& curves);

}  // namespace kolo
