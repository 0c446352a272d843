#pragma once

#include <cstdint>
#include <string>

namespace kolo {

[[nodiscard]] std::int32_t own_process();
// Process numbers mean the same to processes with the same namespace; 0: not known.
[[nodiscard]] std::uint64_t own_process_namespace();

enum class ProcessState : std::uint8_t { unknown, alive, stopped, gone };

// Of a process of this namespace.
[[nodiscard]] ProcessState state_of_process(std::int32_t process);

}  // namespace kolo
