// Lines of a terminal's width.
#include <gmock/gmock.h>

#include "kolo/train/observe/format.h"

namespace kolo {
namespace {

TEST(Wrap, BreaksBetweenWordsAndIndentsWhatFollows) {
  EXPECT_EQ(wrap("one two three four", 9), "one two\n  three\n  four");
  EXPECT_EQ(wrap("one two three four", 18), "one two three four");
  EXPECT_EQ(wrap("  one two three", 10, 4), "  one two\n    three");
  EXPECT_EQ(wrap("a b\nc d", 1, 0), "a\nb\nc\nd");
}

TEST(Wrap, NumbersStayWithTheirUnits) {
  const std::string line =
      "epoch 5/5  loss 0.2210  accuracy 91.85 %  validation loss 0.2300  accuracy 91.30 %  22.4 s  "
      "2 683 images/s";
  EXPECT_EQ(wrap(line, 80),
            "epoch 5/5  loss 0.2210  accuracy 91.85 %  validation loss 0.2300\n"
            "  accuracy 91.30 %  22.4 s  2 683 images/s");
  for (int width = 10; width < 120; ++width) {
    const auto wrapped = wrap(line, width);
    EXPECT_EQ(wrapped.find("2\n  683"), std::string::npos) << width;
  }
}

TEST(Wrap, WordsThatAreTooLongStayWhole) {
  EXPECT_EQ(wrap("in /a/very/long/path.yaml it is", 10), "in\n  /a/very/long/path.yaml\n  it is");
  EXPECT_EQ(wrap("abcdefghijkl", 5), "abcdefghijkl");
}

// Blanks at the end among them, behind a word that is too long.
TEST(Wrap, ComesToAnEndInTheNarrowestTerminals) {
  const auto letters = [](std::string text) {
    std::erase_if(text, [](char letter) { return letter == ' ' || letter == '\n'; });
    return text;
  };
  for (const std::string text :
       {"abcdef ", "a bcdef  ", " ", "  abc ", "kolo: -n 2: more\nthan  there are   \n\n x ",
        "epoch 1/5  loss 0.2210  22.4 s  \x1b[33mwarning:\x1b[0m é 60 000 "}) {
    for (int width = 1; width < 24; ++width) {
      for (int indent = 0; indent < 24; ++indent)
        EXPECT_EQ(letters(wrap(text, width, indent)), letters(text)) << width << ", " << indent;
    }
  }
  EXPECT_EQ(wrap("abcdef ", 3), "abcdef ");
  EXPECT_EQ(wrap("one two three", 3), "one\ntwo\nthree") << "no room for an indentation";
}

TEST(Wrap, LettersAndColoursCountAsTheyAreSeen) {
  EXPECT_EQ(wrap("é é é", 5), "é é é");
  EXPECT_EQ(wrap("\x1b[33mwarning:\x1b[0m ab", 11), "\x1b[33mwarning:\x1b[0m ab");
}

TEST(Wrap, WithoutAWidthNothingChanges) {
  const std::string line(300, 'x');
  EXPECT_EQ(wrap(line + " y", 0), line + " y");
}

}  // namespace
}  // namespace kolo
