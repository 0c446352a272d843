#include "kolo/train/observe/format.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace kolo {
namespace {

TEST(Format, CountsAreGrouped) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(938), "938");
  EXPECT_EQ(format_count(1000), "1 000");
  EXPECT_EQ(format_count(60000), "60 000");
  EXPECT_EQ(format_count(-1281167), "-1 281 167");
  EXPECT_EQ(format_count(-100), "-100");
  EXPECT_EQ(format_count(std::numeric_limits<std::int64_t>::min()), "-9 223 372 036 854 775 808");
}

TEST(Format, LossesKeepTheDigitsThatMatter) {
  EXPECT_EQ(format_loss(2.302585), "2.3026");
  EXPECT_EQ(format_loss(.31207), "0.3121");
  EXPECT_EQ(format_loss(.0142803), "0.01428");
  EXPECT_EQ(format_loss(.004771), "0.004771");
  EXPECT_EQ(format_loss(.00012), "0.0001200");
  EXPECT_EQ(format_loss(3.2e-6), "3.200e-06");
  EXPECT_EQ(format_loss(0), "0.0000");
  EXPECT_EQ(format_loss(-.05), "-0.05000");
  EXPECT_EQ(format_loss(std::nan("")), "nan");
}

TEST(Format, RatesKeepTheDigitsThatMatter) {
  EXPECT_EQ(format_rate(0), "0.00");
  EXPECT_EQ(format_rate(0.0417), "0.042");
  EXPECT_EQ(format_rate(0.9999), "1.00");
  EXPECT_EQ(format_rate(3.14159), "3.14");
  EXPECT_EQ(format_rate(57.25), "57.2");
  EXPECT_EQ(format_rate(99.96), "100");
  EXPECT_EQ(format_rate(21480.4), "21 480");
  EXPECT_EQ(format_rate(std::nan("")), "?");
  EXPECT_EQ(format_rate(-1), "?");
  EXPECT_EQ(format_rate(1e300), "?");
}

TEST(Format, BytesInBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(128ULL << 20), "128 MiB");
  EXPECT_EQ(format_bytes((1ULL << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(Format, ClockTimes) {
  EXPECT_EQ(format_clock(13.6), "00:14");
  EXPECT_EQ(format_clock(725), "12:05");
  EXPECT_EQ(format_clock(3599.7), "1:00:00");
  EXPECT_EQ(format_clock(100 * 3600 + 61), "100:01:01");
  EXPECT_EQ(format_clock(std::numeric_limits<double>::infinity()), "--:--");
}

TEST(Format, Moments) {
  EXPECT_EQ(format_moment(0), "1970-01-01 00:00 UTC");
  EXPECT_EQ(format_moment(1763733900.9), "2025-11-21 14:05 UTC");
}

TEST(Wrap, BreaksBetweenWordsAndIndentsWhatFollows) {
  EXPECT_EQ(wrap("one two three four", 9), "one two\n  three\n  four");
  EXPECT_EQ(wrap("one two three four", 18), "one two three four");
  EXPECT_EQ(wrap("  one two three", 10, 4), "  one two\n    three");
  EXPECT_EQ(wrap("a b\nc d", 1, 0), "a\nb\nc\nd");
}

TEST(Wrap, NumbersStayWithTheirUnits) {
  const std::string line =
      "epoch 5/5  loss 0.2210, accuracy 91.85 %  validation loss 0.2300, accuracy 91.30 %  22.4 s  "
      "2 683 images/s";
  EXPECT_EQ(wrap(line, 80),
            "epoch 5/5  loss 0.2210, accuracy 91.85 %\n"
            "  validation loss 0.2300, accuracy 91.30 %  22.4 s  2 683 images/s");
  EXPECT_EQ(
      wrap("epoch 1/5  loss 2.2210, accuracy 9.12 %  validation loss 2.2300, accuracy 10.30 %", 80),
      "epoch 1/5  loss 2.2210, accuracy 9.12 %\n  validation loss 2.2300, accuracy 10.30 %")
      << "the shortest one that does not fit";
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
