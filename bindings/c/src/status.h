#pragma once

#include <string>
#include <utility>

// Translation of exceptions into statuses and messages.
namespace kolo::bindings {

// Call that is named in a message: "kolo_push on rank 3".
struct Call {
  const char* name = "";
  int rank = -1;  // of the session; -1: not known yet

  [[nodiscard]] std::string text() const;
};

// Keeps the message of the current exception for kolo_last_message(), with the call before it, and
// returns its status.
[[nodiscard]] int status_of_exception(const Call& call) noexcept;

// Runs the body of a call of the C interface. No exception leaves.
template <typename Body>
[[nodiscard]] int guarded(Call& call, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return 0;
  } catch (...) {
    return status_of_exception(call);
  }
}

}  // namespace kolo::bindings
