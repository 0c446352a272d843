#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "kolo/run/launch_ranks.h"
#include "support/process.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {

constexpr std::chrono::seconds kolo_deadline = std::chrono::minutes(4);
// Deadline of tests in *_long_test.cpp, which share the machine.
constexpr std::chrono::seconds long_deadline = std::chrono::minutes(10);

inline ProcessOptions kolo_options(std::map<std::string, std::string> environment,
                                   std::chrono::seconds deadline = kolo_deadline) {
  ProcessOptions options;
  options.deadline = deadline;
  options.environment = std::move(environment);
  return options;
}

// Words of a command line, and more of them.
[[nodiscard]] inline std::vector<std::string> joined(std::vector<std::string> words,
                                                     const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Runs the kolo program; at the deadline everything it started is killed.
inline ProcessResult start_kolo(const std::vector<std::string>& arguments,
                                std::map<std::string, std::string> environment = {}) {
  return run_process(joined({KOLO_PROGRAM}, arguments), kolo_options(std::move(environment)));
}

// The same, in a fork of this process where that will do, which is quicker. What it starts then is
// this program, too (main.cpp).
inline ProcessResult run_kolo(const std::vector<std::string>& arguments,
                              std::map<std::string, std::string> environment = {},
                              std::chrono::seconds deadline = kolo_deadline) {
  return run_in_fork([&] { return run_program(arguments); },
                     kolo_options(std::move(environment), deadline));
}

// Success where kolo ended with status 0 and its output has all of `parts`.
[[nodiscard]] inline ::testing::AssertionResult succeeds(
    const ProcessResult& result, std::initializer_list<std::string_view> parts = {}) {
  if (result.exit_code == 0) return says(result.output, parts);
  return ::testing::AssertionFailure()
         << "status " << result.exit_code << ": " << result.output << result.errors;
}

// Success where kolo ended with this status and a message that has all of `parts`.
[[nodiscard]] inline ::testing::AssertionResult ends_with(
    const ProcessResult& result, int status, std::initializer_list<std::string_view> parts) {
  if (result.exit_code == status) return says(result.errors, parts);
  return ::testing::AssertionFailure()
         << "status " << result.exit_code << ": " << result.output << result.errors;
}

// The same of input that is refused.
[[nodiscard]] inline ::testing::AssertionResult is_refused(
    const ProcessResult& result, std::initializer_list<std::string_view> parts) {
  return ends_with(result, exit_wrong_input, parts);
}

// JSON that a command of kolo's prints with --json.
[[nodiscard]] inline nlohmann::json json_of(const std::vector<std::string>& arguments) {
  const auto result = run_kolo(joined(arguments, {"--json"}));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return nlohmann::json::parse(result.output);
}

// The same before anything was printed.
inline void expect_refused(const ProcessResult& result, std::string_view words) {
  EXPECT_TRUE(is_refused(result, {words}));
  EXPECT_EQ(result.output, "");
}

}  // namespace kolo::testing
