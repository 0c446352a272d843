#pragma once

#include <cstddef>

#include "kolo/data/loader.h"

namespace kolo {

// The samples of one of several ranks in a batch (Batch::shares), as if they were a batch of their
// own; the whole batch where it is one rank's.
[[nodiscard]] Batch part_of(const Batch& batch, std::size_t part);

}  // namespace kolo
