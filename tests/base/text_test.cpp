#include <algorithm>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kolo/base/text.h"

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

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Optional;
using ::testing::Pair;

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::ranges::sort(names, comes_before);
  return names;
}

TEST(NaturalOrder, ComparesNumbersByTheirValue) {
  EXPECT_THAT(sorted({"10", "2", "1", "0"}), ElementsAre("0", "1", "2", "10"));
  EXPECT_THAT(sorted({"s10_b2", "s2_b10", "s2_b9", "s10"}),
              ElementsAre("s2_b9", "s2_b10", "s10", "s10_b2"));
  EXPECT_THAT(sorted({"a010", "a9", "a0011"}), ElementsAre("a9", "a010", "a0011"));
  EXPECT_THAT(sorted({"t99999999999999999999", "t100000000000000000000"}),
              ElementsAre("t99999999999999999999", "t100000000000000000000"));
  EXPECT_THAT(sorted({"b", "a", "a1", ""}), ElementsAre("", "a", "a1", "b"));
}

TEST(NaturalOrder, IsOneForAllNames) {
  std::vector<std::string> names;
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string name;
    for (auto length = random() % 6; length > 0; --length) name += "019a-._A\xe4"[random() % 9];
    names.push_back(name);
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  const auto once = sorted(names);
  std::ranges::shuffle(names, random);
  EXPECT_THAT(sorted(names), ElementsAreArray(once));
  for (std::size_t i = 0; i < once.size(); ++i)
    for (std::size_t j = 0; j < once.size(); ++j)
      EXPECT_EQ(comes_before(once[i], once[j]), i < j) << once[i] << " and " << once[j];
}

TEST(NaturalOrder, FindsNamesThatBytesOrderOtherwise) {
  EXPECT_THAT(find_names_out_of_bytes_order(sorted({"0", "2", "10"})), Optional(Pair("2", "10")));
  EXPECT_FALSE(find_names_out_of_bytes_order(sorted({"00", "02", "10"})));
}

}  // namespace

}  // namespace kolo
