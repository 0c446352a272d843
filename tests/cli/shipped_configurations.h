#pragma once

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cli/program.h"
#include "kolo/train/observe/history.h"

namespace kolo::testing {

// The data made of Fashion-MNIST by kolo data, the configurations those that kolo comes with.
class ShippedConfigurations : public ::testing::Test {
 protected:
  void make(const std::string& kind, const char* per_class) {
    ASSERT_TRUE(succeeds(
        run_kolo({"data", kind, "--from", "fashion-mnist", "-o", data, "--per-class", per_class})));
  }

  History train(const std::string& name, std::vector<std::string> settings) {
    settings.insert(settings.begin(), {"train", KOLO_CONFIGS "/" + name, "-n", "2", "--output",
                                       (folder / "run").string()});
    EXPECT_TRUE(succeeds(run_kolo(settings, {}, long_deadline)));
    return History::read(folder / "run" / "history.json");
  }

  TemporaryFolder folder;
  std::string data = (folder / "data").string();
};

}  // namespace kolo::testing
