#pragma once

#include "kolo/comm/collective_call.h"

namespace kolo {

// One of the messages of Communicator::exchange(): Transfer::send() or Transfer::receive().
using Transfer = CollectiveCall;

}  // namespace kolo
