#include "kolo/base/error.h"

#include <system_error>

namespace kolo {

std::string system_error_text(const std::string& what, int error_number) {
  return what + ": " + std::generic_category().message(error_number);
}

}  // namespace kolo
