#pragma once

namespace kolo {

// The user's OMP_PROC_BIND, empty where it is not set, while kolo's own is "false"
// (run/relaunch.h): programs that kolo starts for the user get it back.
inline constexpr const char* openmp_binding_before = "KOLO_OMP_PROC_BIND_BEFORE";

}  // namespace kolo
