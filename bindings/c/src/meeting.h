#pragma once

#include <exception>

#include "kolo/comm/communicator.h"
#include "status.h"

namespace kolo::bindings {

// All ranks say whether they can go on. Where one can't, because of `problem`, that is thrown
// there, and on the others a CommunicationError that names the first such rank. Collective.
void meet(const Call& call, const Communicator& communicator, const std::exception_ptr& problem);

}  // namespace kolo::bindings
