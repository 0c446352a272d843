#pragma once

#include "kolo/config/run_config.h"

namespace kolo {

// Gives values to what a checked configuration leaves open and what does not depend on the data or
// the model: the data's usual folder, the optimizer's usual numbers. Shapes of images get their
// channels first.
void fill_defaults(RunConfig& config);

}  // namespace kolo
