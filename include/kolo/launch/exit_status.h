#pragma once

// What kolo's commands end with, as docs/configuration.md tells; 0: done.
namespace kolo {

inline constexpr int exit_failed = 1;
inline constexpr int exit_wrong_input = 2;  // nothing was begun, and nothing written
inline constexpr int exit_stopped = 75;     // EX_TEMPFAIL: on request; run again to go on

}  // namespace kolo
