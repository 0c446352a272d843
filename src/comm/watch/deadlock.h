#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "comm/watch/event_block.h"

namespace kolo {

// Ranks of which none can ever go on, in words: each waits, for at least `least` nanoseconds, for
// another of them, which waits for something else; or they are in different collectives in the same
// place of their order. Nothing: there are none that can be told for certain. A rank counts as
// waiting where the one thread does that has asked for all of its collectives and transfers, so
// that nobody is left to come to another.
[[nodiscard]] std::optional<std::string> find_deadlock(std::span<const RankStatus> statuses,
                                                       std::int64_t least);

}  // namespace kolo
