// Environment variables in paths.
#include <cstdlib>

#include "config/config_fixture.h"
#include "support/says.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Environment : public testing::ConfigTest {
 protected:
  void SetUp() override {
    setenv("KOLO_TEST_FOLDER", "/some/where", 1);
    setenv("HOME", "/home/someone", 1);
    unsetenv("KOLO_TEST_UNSET");
  }
  void TearDown() override { unsetenv("KOLO_TEST_FOLDER"); }

  [[nodiscard]] std::string path_for(const std::string& text) const {
    return load(std::string(required) + "output_dir: '" + text + "'\n").output_dir;
  }
};

TEST_F(Environment, IsExpandedInPaths) {
  EXPECT_EQ(path_for("$KOLO_TEST_FOLDER/a"), "/some/where/a");
  EXPECT_EQ(path_for("a/${KOLO_TEST_FOLDER}b"), "a//some/whereb");
  EXPECT_EQ(path_for("$$KOLO_TEST_FOLDER"), "$KOLO_TEST_FOLDER");
  EXPECT_EQ(path_for("$$$KOLO_TEST_FOLDER$$"), "$/some/where$");
  EXPECT_EQ(path_for("~/a"), "/home/someone/a");
  EXPECT_EQ(path_for("~"), "/home/someone");
  EXPECT_EQ(path_for("a~/~b"), "a~/~b");
  EXPECT_EQ(path_for("~other/a"), "~other/a");
  EXPECT_EQ(value_of(load(required, {"data.path=$KOLO_TEST_FOLDER"}), "data.path"), "/some/where");
}

TEST_F(Environment, IsLeftAloneElsewhere) {
  EXPECT_EQ(load(required, {"description=$KOLO_TEST_UNSET ~"}).description, "$KOLO_TEST_UNSET ~");
}

TEST_F(Environment, AnUnsetVariableIsNamedWithFileAndLine) {
  EXPECT_THAT(
      error_after_required("output_dir: ${KOLO_TEST_UNSET}/x\n"),
      AllOf(
          StartsWith("run.yaml:4: output_dir: the environment variable KOLO_TEST_UNSET is not set"),
          HasSubstr("${KOLO_TEST_UNSET}/x")));
  EXPECT_THAT(
      error(required, {"data.path=$KOLO_TEST_UNSET"}),
      StartsWith("command line: data.path: the environment variable KOLO_TEST_UNSET is not set"));
  unsetenv("HOME");
  EXPECT_TRUE(says(error_after_required("output_dir: ~/x\n"), {"variable HOME is not set"}));
}

TEST_F(Environment, ADollarNeedsAName) {
  for (const char* text :
       {"a$", "$/a", "$1", "${}", "${1A}", "${KOLO_TEST_FOLDER", "${A B}", "$-x"}) {
    EXPECT_THAT(error_after_required("output_dir: '" + std::string(text) + "'\n"),
                AllOf(StartsWith("run.yaml:4: output_dir: in "), HasSubstr("must be followed by")))
        << text;
  }
}

}  // namespace
}  // namespace kolo
