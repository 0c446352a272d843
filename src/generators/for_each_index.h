#pragma once

#include <cstdint>
#include <functional>

namespace kolo {

// Calls work(index) once for every index of [0, count), on `threads` threads, the calling one among
// them. After an exception no more are begun, and the first one is thrown here.
void for_each_index(std::int64_t count, int threads, const std::function<void(std::int64_t)>& work);

}  // namespace kolo
