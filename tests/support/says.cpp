#include "support/says.h"

namespace kolo {

::testing::AssertionResult says(std::string_view text,
                                std::initializer_list<std::string_view> parts) {
  for (const auto part : parts) {
    if (text.find(part) != text.npos) continue;
    return ::testing::AssertionFailure() << "\"" << part << "\" is not in \"" << text << "\"";
  }
  return ::testing::AssertionSuccess() << "all is in \"" << text << "\"";
}

}  // namespace kolo
