#include "kolo/base/text.h"

#include <vector>

#include <gtest/gtest.h>

namespace kolo {
namespace {

const std::vector<std::string> known = {"momentum", "batch_size", "epochs", "lr",
                                        "sgd",      "adam",       "adamw"};

TEST(Nearest, FindsMissedDoubledReplacedAndSwappedLetters) {
  EXPECT_EQ(nearest("momntum", known), "momentum");
  EXPECT_EQ(nearest("epochhs", known), "epochs");
  EXPECT_EQ(nearest("batch-size", known), "batch_size");
  EXPECT_EQ(nearest("eopchs", known), "epochs");
  EXPECT_EQ(nearest("lrr", known), "lr");
}

TEST(Nearest, CaseDoesNotCount) {
  EXPECT_EQ(nearest("SGD", known), "sgd");
  EXPECT_EQ(nearest("AdamW", known), "adamw");
}

TEST(Nearest, LongerWordsMayHaveMoreMistakes) {
  EXPECT_EQ(nearest("bachh_sise", known), "batch_size");  // three edits of ten letters
  EXPECT_EQ(nearest("epppppchs", known), "");             // four edits of nine letters
}

TEST(Nearest, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(nearest("verbosity", known), "");
  EXPECT_EQ(nearest("xy", known), "");  // two edits away from "lr", with no letter of it
  EXPECT_EQ(nearest("foo", std::vector<std::string>{"zoom"}), "");
  EXPECT_EQ(nearest("o", std::vector<std::string>{"rho"}), "");
  EXPECT_EQ(nearest("", known), "");
  EXPECT_EQ(nearest("sgd", {}), "");
}

TEST(Nearest, TakesTheFirstOfEquallyNearWords) {
  const std::vector<std::string> words = {"cats", "cat", "car"};
  EXPECT_EQ(nearest("cap", words), "cat");
  EXPECT_EQ(nearest("car", words), "car");
}

TEST(ShellWord, StandsForItself) {
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a $b*"), "'a $b*'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

TEST(Join, PutsSeparatorsBetweenWords) {
  const std::vector<std::string> words = {"a", "b", "c"};
  EXPECT_EQ(join(words), "a, b, c");
  EXPECT_EQ(join(words, " | "), "a | b | c");
  EXPECT_EQ(join({}), "");
}

}  // namespace
}  // namespace kolo
