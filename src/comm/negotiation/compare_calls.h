#pragma once

#include <functional>

#include "kolo/comm/collective_call.h"

namespace kolo {

// Compares a call with those that the other ranks make at the same time, and throws on all of them,
// in the same words, where they differ: before anything is moved, so that the ranks can go on with
// other calls. It takes an all-reduce of 16 bytes; of an all-to-all an all-gather of 8 besides.
// `execute` does collectives of these ranks, whose calls are the same.
void compare_calls(const CollectiveCall& call, int rank, int size,
                   const std::function<void(const CollectiveCall&)>& execute);

}  // namespace kolo
