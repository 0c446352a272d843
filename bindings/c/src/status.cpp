#include "status.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

#include "kolo/base/error.h"
#include "kolo/kolo.h"

namespace kolo::bindings {

namespace {

// Message of fixed size, which needs no memory when none is left, and no destructor when a thread
// ends.
struct LastMessage {
  char text[4096] = "";
  std::size_t length = 0;
};

thread_local LastMessage last_message;

void keep(std::string_view text) noexcept {
  last_message.length = std::min(text.size(), sizeof last_message.text - 1);
  std::memcpy(last_message.text, text.data(), last_message.length);
  last_message.text[last_message.length] = '\0';
}

// Removes the source location that LibTorch appends to its errors.
std::string_view without_backtrace(std::string_view text) {
  return text.substr(0, std::min(text.find("\nException raised from"), text.size()));
}

// Removes the beginning of a network's message, "online: push on rank 3: ", which the C name of the
// call replaces.
std::string_view without_beginning(const Call& call, std::string_view text) {
  constexpr std::string_view room = "online: ", prefix = "kolo_";
  if (!text.starts_with(room)) return text;
  text.remove_prefix(room.size());
  const auto name = call.text().substr(prefix.size());
  for (const auto& beginning : {name + ": ", name.substr(0, name.find(' ')) + ": "})
    if (text.starts_with(beginning)) return text.substr(beginning.size());
  return text;
}

void keep(const Call& call, std::string_view text) noexcept {
  text = without_backtrace(text);
  try {
    text = without_beginning(call, text);
    keep(call.text() + ": " + std::string(text));
  } catch (...) {
    keep(text);
  }
}

}  // namespace

std::string Call::text() const {
  return rank < 0 ? name : std::string(name) + " on rank " + std::to_string(rank);
}

int status_of_exception(const Call& call) noexcept {
  try {
    throw;
  } catch (const StateError& error) {
    keep(call, error.what());
    return KOLO_STATE;
  } catch (const CommunicationError& error) {
    keep(call, error.what());
    return KOLO_RANK;
  } catch (const InputError& error) {
    keep(call, error.what());
    return KOLO_INPUT;
  } catch (const std::bad_alloc&) {
    keep(call, "no memory left; a smaller reservoir.capacity or batch takes less");
    return KOLO_MEMORY;
  } catch (const std::exception& error) {
    keep(call, error.what());
    return KOLO_FAILED;
  } catch (...) {
    keep(call, "failed with an exception that says nothing");
    return KOLO_FAILED;
  }
}

}  // namespace kolo::bindings

extern "C" {

int kolo_abi_version(void) {
  return KOLO_ABI_VERSION;
}

size_t kolo_last_message(char* text, size_t size) {
  const auto& message = kolo::bindings::last_message;
  if (text != nullptr && size > 0) {
    const auto length = std::min(message.length, size - 1);
    std::memcpy(text, message.text, length);
    text[length] = '\0';
  }
  return message.length;
}

}  // extern "C"
