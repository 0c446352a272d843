#pragma once

#include <string>

#include "kolo/observe/study.h"

namespace kolo {

// A study's results as a table, for people.
[[nodiscard]] std::string to_text(const Study& study);

}  // namespace kolo
