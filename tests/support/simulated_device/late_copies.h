#pragma once

#include <cstdint>
#include <functional>

#include <c10/core/Stream.h>

// Copies that wait in a stream other than the default one until something waits for them: as late
// as a device may do them, so that who forgets to wait reads what is not there yet, and who uses
// the source again too early sends what it was not. Thread-safe.
namespace kolo::testing::simulated {

// How many copies a stream was ever given.
using StreamPoint = std::uint64_t;

void add_late_copy(const c10::Stream& stream, std::function<void()> copy);
[[nodiscard]] StreamPoint end_of(const c10::Stream& stream);
// Does the copies up to there, all of them unless told otherwise.
void finish_copies(const c10::Stream& stream, StreamPoint until = ~StreamPoint{0});
// Whether they were done before; does one of them if not, so that who asks again and again gets on.
[[nodiscard]] bool are_copies_done(const c10::Stream& stream, StreamPoint until);

}  // namespace kolo::testing::simulated
