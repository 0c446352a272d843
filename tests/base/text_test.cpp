#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kolo/base/text.h"
#include "support/matchers.h"

namespace kolo {

namespace {

const std::vector<std::string> known = {"momentum", "batch_size", "epochs", "lr",
                                        "sgd",      "adam",       "adamw"};

TEST(Nearest, FindsWordsWithFewMistakes) {
  for (const auto& [word, near] :
       {std::pair{"momntum", "momentum"}, std::pair{"epochhs", "epochs"},
        std::pair{"batch-size", "batch_size"}, std::pair{"eopchs", "epochs"},
        std::pair{"lrr", "lr"}, std::pair{"SGD", "sgd"}, std::pair{"AdamW", "adamw"},
        std::pair{"bachh_sise", "batch_size"},  // three edits of ten letters
        std::pair{"epppppchs", ""},             // four edits of nine letters
        std::pair{"verbosity", ""},
        std::pair{"xy", ""},  // two edits away from "lr", with no letter of it
        std::pair{"", ""}})
    EXPECT_EQ(nearest(word, known), near) << word;
  EXPECT_EQ(nearest("foo", std::vector<std::string>{"zoom"}), "");
  EXPECT_EQ(nearest("o", std::vector<std::string>{"rho"}), "");
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

TEST(Join, CountsTheWordsBeyondTheFirst) {
  const std::vector<std::string> words{"a", "b", "c"};
  EXPECT_EQ(join_first(words, 3), "a, b, c");
  EXPECT_EQ(join_first(words, 2), "a, b and 1 more");
  EXPECT_EQ(join_first({}), "");
}

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
