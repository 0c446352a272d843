#pragma once

#include "kolo/comm/communicator.h"
#include "kolo/data/catalogue.h"
#include "kolo/data/dataset.h"
#include "kolo/nn/network.h"

namespace kolo {

// Reads what is left to be read into memory (Datasets::loads). The ranks of a node keep it once,
// in memory that they share, and read a part of it each; where they can't share so much each has a
// copy of its own, and a warning is added. That memory is a file of the system's that has no name
// when this returns, so it goes with the last rank, however that ends. Collective; samples may be
// read when all ranks are back. Throws what reading throws, when the ranks need nothing more of
// each other.
void load_data(const Communicator& communicator, Datasets& datasets);

// Shows the network its first training samples, as they are in the first epoch, where it wants some
// (Network::first_samples()): rank 0's reads them, and all get its weights. What reading throws is
// thrown on rank 0. Collective.
void show_first_samples(const Communicator& communicator, const Dataset& training,
                        Network& network);

}  // namespace kolo
