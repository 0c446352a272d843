#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace kolo {

// The base of everything kolo throws. A message names the subsystem, what was tried, the value it
// got, the values it accepts, the rank where that matters, and what to do next.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

// The user's input was wrong: a configuration, an option, a data file. The program prints the
// message and exits with status 2.
class InputError : public Error {
 public:
  using Error::Error;
};

// Another rank failed or went away, so the collective that this rank waited for can't complete.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

// A call before initialization, after finalization, or in a state in which it can't be done.
class StateError : public Error {
 public:
  using Error::Error;
};

// Tells whether an exception is for want of memory. LibTorch's has no type of its own, and says
// otherwise where the number of bytes can't be counted.
[[nodiscard]] inline bool wants_memory(const std::exception& error) {
  const std::string_view text = error.what();
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         text.find("can't allocate memory") != std::string_view::npos ||
         text.find("calculation overflowed") != std::string_view::npos ||
         text.find("multiplication overflow") != std::string_view::npos;
}

// "cannot open x.gz: No such file or directory" for an errno value.
[[nodiscard]] inline std::string system_error_text(const std::string& what, int error_number) {
  return what + ": " + std::generic_category().message(error_number);
}

}  // namespace kolo
