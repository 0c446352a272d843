#pragma once

#include <cstdint>
#include <string_view>

#include "kolo/comm/communicator.h"

namespace kolo::parallel {

// InputError where the ranks don't divide a layer's `what` ("heads", "output features"): it says
// which numbers of either would fit.
void require_divisible(const Communicator& group, std::string_view layer, std::string_view what,
                       std::int64_t count, std::int64_t blocks = 1);

}  // namespace kolo::parallel
