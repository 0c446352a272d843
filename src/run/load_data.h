#pragma once

#include "kolo/comm/communicator.h"
#include "kolo/data/catalogue.h"

namespace kolo {

// Reads what is left to be read into memory (Datasets::loads). The ranks of a node keep it once,
// in memory that they share, and read a part of it each; where they can't share so much each has a
// copy of its own, and a warning is added. That memory is a file of the system's that has no name
// when this returns, so it goes with the last rank, however that ends. Collective; samples may be
// read when all ranks are back. Throws what reading throws, when the ranks need nothing more of
// each other.
void load_data(const Communicator& communicator, Datasets& datasets);

}  // namespace kolo
