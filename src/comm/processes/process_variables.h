#pragma once

namespace kolo {

// In which a rank that kolo has started as a process finds its place.
inline constexpr const char* process_rank_variable = "KOLO_PROCESS_RANK";
inline constexpr const char* process_ranks_variable = "KOLO_PROCESS_RANKS";
inline constexpr const char* process_memory_variable = "KOLO_PROCESS_MEMORY";

}  // namespace kolo
