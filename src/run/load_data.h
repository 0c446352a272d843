#pragma once

#include "kolo/comm/communicator.h"
#include "kolo/data/catalogue.h"

namespace kolo {

// Reads Datasets::loads into memory. The ranks of a node keep it once, in memory that they share,
// and read a part of it each; where they can't share so much each has a copy, and a warning is
// added. The memory goes with the last rank, however that ends. Collective. Throws what reading
// throws, when the ranks need nothing more of each other.
void load_data(const Communicator& communicator, Datasets& datasets);

}  // namespace kolo
