#pragma once

#include <stdexcept>
#include <string>
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

// "cannot open x.gz: No such file or directory" for an errno value.
[[nodiscard]] inline std::string system_error_text(const std::string& what, int error_number) {
  return what + ": " + std::generic_category().message(error_number);
}

}  // namespace kolo
