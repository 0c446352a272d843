#pragma once

#include "cli/options.h"

namespace kolo {

// Tries the kernels of all convolutions that a configuration's network does, keeps the fastest for
// later runs, and prints a table of them. `ranks`: of this machine, which share its cores and the
// batch. The exit status.
int tune_kernels(const ConfigOptions& config, int ranks);

}  // namespace kolo
