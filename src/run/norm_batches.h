#pragma once

#include "kolo/config/run_config.h"
#include "kolo/data/dataset.h"
#include "kolo/nn/network.h"

namespace kolo {

// InputError where a pass of the training has one sample, an epoch's last batch above all, and a
// batch norm would get one value per channel of it, which has no variance. Costs a forward pass
// where a pass has one sample.
void require_values_to_normalize(const RunConfig& config, const Dataset& training, Network& network,
                                 int ranks);

}  // namespace kolo
