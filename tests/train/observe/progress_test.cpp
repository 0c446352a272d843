#include "kolo/train/observe/progress.h"
#include "support/matchers.h"
#include "support/says.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

namespace kolo {
namespace {

// A bar with a clock that the test sets.
class Bar {
 public:
  explicit Bar(ProgressOptions options) : bar_(stream_, options, [this] { return now; }) {}

  ProgressBar* operator->() { return &bar_; }
  // Text written since the last call.
  std::string take() {
    std::string text = stream_.str();
    stream_.str("");
    return text;
  }

  double now = 0;

 private:
  std::ostringstream stream_;
  ProgressBar bar_;
};

ProgressOptions terminal(int width, bool unicode = true) {
  return {.terminal = true, .width = width, .unicode = unicode};
}

// A minimal terminal: what its last line shows after this text, one string a character; and the
// lines above.
struct Screen {
  std::vector<std::string> line;
  std::vector<std::string> above;

  explicit Screen(const std::string& text) {
    std::size_t column = 0;
    for (std::size_t i = 0; i < text.size();) {
      if (text.compare(i, 3, "\x1b[K") == 0) {
        line.resize(std::min(line.size(), column));
        i += 3;
      } else if (text[i] == '\r') {
        column = 0;
        ++i;
      } else if (text[i] == '\n') {
        above.push_back(joined());
        line.clear();
        column = 0;
        ++i;
      } else {
        std::size_t end = i + 1;
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
        if (column == line.size()) line.emplace_back();
        line[column++] = text.substr(i, end - i);
        i = end;
      }
    }
  }
  [[nodiscard]] std::string joined() const {
    std::string text;
    for (const auto& character : line) text += character;
    return text;
  }
};

TEST(ProgressBar, ShowsEverythingWhereThereIsRoom) {
  Bar bar(terminal(100));
  bar->start("epoch 2/5", 938);
  bar.now = 22.74;
  bar->update(581, {21480.3, 0.31214});
  const Screen screen(bar.take());
  EXPECT_EQ(
      screen.joined(),
      "epoch 2/5 ━━━━━━━━━━━━━━━━━━━╸               61 %  581/938  21 480 images/s  loss 0.3121  "
      "00:14 left");
  EXPECT_EQ(screen.line.size(), 100U);
}

TEST(ProgressBar, AsciiWhenTold) {
  Bar bar(terminal(60, false));
  bar->start("epoch 1/1", 4);
  bar.now = 1;
  bar->update(2, {});
  const auto text = Screen(bar.take()).joined();
  EXPECT_THAT(text, StartsWith("epoch 1/1 [=="));
  EXPECT_THAT(text, EndsWith("]   50 %  2/4  00:01 left"));
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 128; }));
}

class ProgressBarWidth : public ::testing::TestWithParam<bool> {};

TEST_P(ProgressBarWidth, IsRespectedAndTheBarGrows) {
  for (int width = 20; width <= 200; ++width) {
    Bar bar(terminal(width, GetParam()));
    bar->start("epoch 12/90", 40037, 17);
    std::ptrdiff_t longest = 0;
    for (std::int64_t done = 17; done <= 40037; done += 1819) {
      bar.now += 10;  // so that the time left keeps its length, and the bar its own
      bar->update(done, {1234567.0, 12.5});
      const Screen screen(bar.take());
      ASSERT_LE(screen.line.size(), static_cast<std::size_t>(width)) << screen.joined();
      ASSERT_TRUE(says(screen.joined(), {"%"}));
      const auto filled =
          std::count(screen.line.begin(), screen.line.end(), GetParam() ? "━" : "=");
      ASSERT_GE(filled, longest) << "width " << width << ", done " << done;
      longest = filled;
    }
    EXPECT_GE(longest, width >= 60 ? 3 : 0) << "width " << width;
  }
}

INSTANTIATE_TEST_SUITE_P(Characters, ProgressBarWidth, ::testing::Values(true, false));

TEST(ProgressBar, NarrowerShowsLessButNeverTheLabelOrPercentage) {
  const auto shown = [](int width) {
    Bar bar(terminal(width));
    bar->start("epoch 2/5", 938);
    bar.now = 22.74;
    bar->update(581, {21480.3, 0.31214});
    return Screen(bar.take()).joined();
  };
  EXPECT_FALSE(says(shown(70), {"581/938"}));
  EXPECT_TRUE(says(shown(70), {"images/s"}));
  EXPECT_FALSE(says(shown(50), {"images/s"}));
  EXPECT_TRUE(says(shown(50), {"━"}));
  EXPECT_EQ(shown(41), "epoch 2/5   61 %  loss 0.3121  00:14 left");
  EXPECT_EQ(shown(28), "epoch 2/5   61 %  00:14 left");
  EXPECT_EQ(shown(20), "epoch 2/5   61 %");
}

TEST(ProgressBar, RedrawsAtMostTenTimesASecond) {
  Bar bar(terminal(80));
  bar->start("epoch 1/1", 1000);
  EXPECT_TRUE(says(Screen(bar.take()).joined(), {"--:-- left"}));
  for (int step = 1; step <= 1000; ++step) {
    bar.now = step / 1000.0;
    bar->update(step, {});
  }
  const auto text = bar.take();
  const auto redraws = std::count(text.begin(), text.end(), '\r');
  EXPECT_GE(redraws, 9);
  EXPECT_LE(redraws, 10);
}

TEST(ProgressBar, TimeLeftCountsOnlyTheStepsOfThisProcess) {
  Bar bar(terminal(120));
  bar->start("epoch 1/1", 100, 50);
  bar.now = 10;
  bar->update(60, {});
  EXPECT_THAT(Screen(bar.take()).joined(), EndsWith(" 60 %   60/100  00:40 left"));
}

TEST(ProgressBar, ClearLeavesNothing) {
  Bar bar(terminal(80));
  bar->start("epoch 1/2", 10);
  bar->clear();
  const Screen screen(bar.take());
  EXPECT_EQ(screen.joined(), "");
  EXPECT_TRUE(screen.above.empty());
  bar->update(3, {});  // no epoch: nothing to show
  EXPECT_EQ(bar.take(), "");
}

TEST(ProgressBar, LinesGoAboveIt) {
  Bar bar(terminal(80));
  bar->print_above("before");
  bar->start("epoch 1/2", 10);
  bar->print_above("checkpoint written");
  const Screen screen(bar.take());
  EXPECT_THAT(screen.above, ElementsAre("before", "checkpoint written"));
  EXPECT_THAT(screen.joined(), StartsWith("epoch 1/2"));
}

TEST(ProgressBar, LeavesTheCursorOnALineOfItsOwn) {
  std::ostringstream stream;
  {
    ProgressBar bar(stream, terminal(80), [] { return 0.0; });
    bar.start("epoch 1/2", 10);
  }
  EXPECT_THAT(stream.str(), EndsWith("\n"));
}

TEST(ProgressBar, WithoutTerminalOnlyPlainLinesNowAndThen) {
  Bar bar({.plain_interval_seconds = 10});
  for (int epoch = 1; epoch <= 2; ++epoch) {
    bar->start("epoch " + std::to_string(epoch) + "/2", 16);
    for (int step = 1; step <= 16; ++step) {
      bar.now += 1;
      bar->update(step, {64.0, 0.5});
    }
    bar->clear();
  }
  EXPECT_EQ(bar.take(),
            "epoch 1/2   62 %  10/16  64.0 images/s  loss 0.5000  00:06 left\n"
            "epoch 2/2   25 %   4/16  64.0 images/s  loss 0.5000  00:12 left\n"
            "epoch 2/2   87 %  14/16  64.0 images/s  loss 0.5000  00:02 left\n");
}

TEST(ProgressBar, OddNumbersAreHarmless) {
  Bar bar(terminal(100));
  bar->start("epoch 1/1", 0);
  EXPECT_TRUE(says(Screen(bar.take()).joined(), {"100 %"}));
  bar->start("epoch 1/1", 10);
  bar.now = 1;
  bar->update(15, {std::nan(""), std::nan("")});
  EXPECT_TRUE(says(Screen(bar.take()).joined(), {"100 %  15/10  loss nan  00:00 left"}));
}

}  // namespace
}  // namespace kolo
