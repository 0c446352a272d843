#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace kolo::testing {

// Message of the exception of type E that `action` throws; the test fails when it throws none.
template <typename E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an exception, none was thrown";
  return {};
}

}  // namespace kolo::testing
