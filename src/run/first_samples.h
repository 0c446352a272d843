#pragma once

#include "kolo/comm/communicator.h"
#include "kolo/data/dataset.h"
#include "kolo/nn/network.h"

namespace kolo {

// Shows the network its first training samples, as they are in the first epoch, where it wants some
// (Network::first_samples()): rank 0's reads them, and all get its weights. What reading throws is
// thrown on rank 0. Collective.
void show_first_samples(const Communicator& communicator, const Dataset& training,
                        Network& network);

}  // namespace kolo
