#pragma once

#include "kolo/comm/collective_call.h"

namespace kolo {

// A collective of one rank: every reduction is the value itself, and whatever goes from rank to
// rank is a copy.
void execute_alone(const CollectiveCall& call);

}  // namespace kolo
