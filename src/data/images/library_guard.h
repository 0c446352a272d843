#pragma once

#include <array>
#include <csetjmp>

namespace kolo::images {

// Where a C library goes, by longjmp, when it fails, and what it says then.
struct FailurePlace {
  std::jmp_buf place;
  std::array<char, 256> message;
};

// Calls a C library whose error handler jumps to `failure`; false when it did. Between this and the
// handler there must be nothing that has a destructor, so the call may be no more than the
// library's own functions on objects that live outside.
template <typename Call>
[[nodiscard, gnu::noinline]] bool guarded(FailurePlace& failure, const Call& call) {
  if (setjmp(failure.place) != 0) return false;
  call();
  return true;
}

}  // namespace kolo::images
