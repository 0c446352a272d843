#pragma once

#include <filesystem>

#include "comm/watch/event_block.h"
#include "comm/watch/rank_status.h"

namespace kolo {

// Writes what a rank has done last to FOLDER/kolo-watch-rank-00002.txt, aside and renamed; returns
// the path. Error when it can't.
std::filesystem::path dump_events(const std::filesystem::path& folder, const RankStatus& status,
                                  const EventBlock& block);

}  // namespace kolo
