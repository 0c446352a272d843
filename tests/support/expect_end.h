#pragma once

#include <gmock/gmock.h>

#include "support/process.h"

namespace kolo::testing {

// Expects that a program ended by itself, with a status that is or matches `status`, and left
// nothing behind.
template <typename Status>
void expect_end(const ProcessResult& result, const Status& status) {
  EXPECT_FALSE(result.timed_out);
  EXPECT_THAT(result.exit_code, status) << result.output << result.errors;
  EXPECT_EQ(result.left_behind, 0);
}

}  // namespace kolo::testing
