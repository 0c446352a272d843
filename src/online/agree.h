#pragma once

#include <functional>
#include <string_view>

#include "kolo/comm/communicator.h"
#include "online/sample_arrays.h"

namespace kolo::online {

// Does what each rank does by itself, at the beginning of a collective call. Where it fails on one
// rank, it is an Error on all, and nobody waits for a rank that doesn't come: its own there, and a
// CommunicationError with its words on the others. Costs an all-reduce of eight bytes.
void agree(const Communicator& ranks, const Call& call, const std::function<void()>& local);

}  // namespace kolo::online
