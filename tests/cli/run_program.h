#pragma once

#include <csignal>
#include <functional>
#include <thread>

#include <gmock/gmock.h>

#include "cli/program.h"

namespace kolo::testing {

// kolo run, with small shell programs on two ranks.
class RunProgram : public ::testing::Test {
 protected:
  // A shell program; $RANK is its rank, whatever launcher has started it.
  [[nodiscard]] std::string program(const std::string& text) const {
    folder_.write("program",
                  "#!/bin/sh\n"
                  "RANK=${KOLO_PROCESS_RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}}\n" +
                      text);
    const auto path = folder_ / "program";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  [[nodiscard]] std::vector<std::string> arguments(const std::vector<std::string>& options,
                                                   const std::string& text) const {
    std::vector<std::string> all = {"run", "-n", "2", "--oversubscribe", "--launcher", launcher_};
    all.insert(all.end(), options.begin(), options.end());
    all.push_back(program(text));
    return all;
  }

  [[nodiscard]] ProcessResult run(const std::vector<std::string>& options,
                                  const std::string& text) const {
    return run_kolo(arguments(options, text));
  }

  // A shell function: `meet NAME` waits until both ranks have come to it.
  [[nodiscard]] std::string meet() const {
    const auto file = (folder_ / "met").string();
    return "meet() { : > " + file + "-$1-$RANK; while ! [ -e " + file + "-$1-0 -a -e " + file +
           "-$1-1 ]; do sleep .02; done; }\n";
  }

  TemporaryFolder folder_;
  std::string launcher_ = "processes";
};

}  // namespace kolo::testing
