#pragma once

#include "kolo/comm/session.h"

namespace kolo::bindings {

struct Options {
  SessionOptions session;
  int threads = 0;  // that calls compute with; 0: as the program's OpenMP
};

// The options of kolo_initialize(): "warn_after=600 on_failure=abort"; null for defaults.
// InputError for words that are none, which says what is accepted.
[[nodiscard]] Options options_from_text(const char* text);

}  // namespace kolo::bindings
