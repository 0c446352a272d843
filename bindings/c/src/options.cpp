#include "options.h"

#include <array>
#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/base/text.h"

namespace kolo::bindings {

namespace {

constexpr std::string_view accepted_options =
    "warn_after=SECONDS, timeout=SECONDS, on_failure=error or abort, threads=N, "
    "shared_memory=auto, "
    "on or off, checked=on or off";

[[noreturn]] void refuse(const std::string& word, const std::string& expected) {
  throw InputError("options: " + quote(word) + ": expected " + expected);
}

std::chrono::duration<double> seconds(const std::string& word, std::string_view value) {
  const auto number = parse_number<double>(value);
  if (!number || *number < 0) refuse(word, "seconds, 0 (never) or more");
  return std::chrono::duration<double>(*number);
}

// Its names stand here, where the values of such a word are listed.
template <typename E, std::size_t n>
E choice(const std::string& word, std::string_view value,
         const std::array<EnumName<E>, n>& choices) {
  std::vector<std::string> names;
  for (const auto& each : choices) {
    if (each.name == value) return each.value;
    names.emplace_back(each.name);
  }
  refuse(word, join(names, " or "));
}

void read_word(const std::string& word, Options& options) {
  const auto equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::string_view value =
      equals == std::string::npos ? std::string_view() : std::string_view(word).substr(equals + 1);
  auto& mpi = options.session.mpi;
  if (name == "warn_after") {
    mpi.watch.warning = seconds(word, value);
  } else if (name == "timeout") {
    mpi.watch.limit = seconds(word, value);
  } else if (name == "on_failure") {
    options.session.on_failure =
        choice(word, value,
               std::to_array<EnumName<OnFailure>>(
                   {{OnFailure::error, "error"}, {OnFailure::abort, "abort"}}));
  } else if (name == "threads") {
    const auto number = parse_number<int>(value);
    if (!number || *number < 1) refuse(word, "a number of threads, at least 1");
    options.threads = *number;
  } else if (name == "shared_memory") {
    mpi.shared_memory = choice(word, value, enum_names(SharedMemory{}));
  } else if (name == "checked") {
    mpi.checked =
        choice(word, value, std::to_array<EnumName<bool>>({{true, "on"}, {false, "off"}}));
  } else {
    refuse(word, std::string(accepted_options));
  }
}

}  // namespace

Options options_from_text(const char* text) {
  Options options;
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) read_word(word, options);
  return options;
}

}  // namespace kolo::bindings
