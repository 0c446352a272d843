// Lines of a terminal's width.
#include <gmock/gmock.h>

#include "kolo/observe/format.h"

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
