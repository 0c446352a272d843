#include "kolo/tools/timeline.h"

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string span(const std::string& name, int rank, int thread, double begin, double duration,
                 const std::string& arguments = "{}") {
  return R"({"name":")" + name + R"(","ph":"X","pid":)" + std::to_string(rank) + R"(,"tid":)" +
         std::to_string(thread) + R"(,"ts":)" + std::to_string(begin) + R"(,"dur":)" +
         std::to_string(duration) + R"(,"args":)" + arguments + "},\n";
}

// Three steps of 10 ms of two ranks; only the second has a span named "special".
std::string example() {
  std::string text = "[\n";
  text += R"({"name":"thread_name","ph":"M","pid":0,"tid":1000,"args":{"name":"communication"}},)"
          "\n";
  for (int step = 1; step <= 3; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const double begin = 1e4 * step;
      text += span("step", rank, 1, begin, 1e4, R"({"step":)" + std::to_string(step) + "}");
      text += span("forward", rank, 1, begin + 1e2, 3e3);
      text += span("bucket 0", rank, 1000, begin + 5e3, 1e3);
    }
  }
  return text + span("special <&> one", 0, 1, 2.5e4, 2e3) + R"({"cut":"o)";
}

class TimelinePicture : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.write("timeline.json", example());
};

TEST_F(TimelinePicture, ShowsTheRowsOfOneStep) {
  const auto picture = timeline_picture(file_, 2);
  EXPECT_TRUE(says(picture, {"step 2: 10 ms", "rank 0, communication", "rank 1, thread 1",
                             "forward 3 ms", "bucket 0 1 ms", "special &lt;&amp;&gt; one"}));
  EXPECT_FALSE(says(timeline_picture(file_, 1), {"special"}));
}

// One entry for each kind of span that is there.
TEST_F(TimelinePicture, HasALegendOfWhatItShows) {
  const auto picture = timeline_picture(file_, 2);
  EXPECT_TRUE(says(picture, {">all-reduce of a bucket</text>", ">other</text>", ">step</text>"}));
  EXPECT_FALSE(says(picture, {"waiting for data"}));
}

TEST_F(TimelinePicture, ShowsTheShortestSpans) {
  const auto file =
      folder_.write("short.json", "[\n" + span("step", 0, 1, 0, 1e6, R"({"step":1})") +
                                      span("update", 0, 1, 5, 0.1));
  EXPECT_TRUE(says(timeline_picture(file, 1), {"width=\"1.0\" height=\"18\" fill=\"#009e73\">"}));
}

TEST_F(TimelinePicture, TakesAStepFromTheMiddle) {
  EXPECT_EQ(timeline_picture(file_, 0), timeline_picture(file_, 2));
}

// Files have thousandths of microseconds, whose sums are a little off.
TEST_F(TimelinePicture, SpansThatFollowEachOtherLieBesideEachOther) {
  const auto file = folder_.write(
      "one.json", "[\n" + span("step", 0, 1, 0.1, 1000, R"({"step":1})") +
                      span("forward", 0, 1, 0.1, 0.2) + span("backward", 0, 1, 0.3, 500));
  const auto picture = timeline_picture(file, 1);
  const auto height = [&](const std::string& colour) {
    const auto place = picture.find("fill=\"" + colour);
    const auto y = picture.rfind("y=\"", place);
    return picture.substr(y, picture.find('"', y + 3) - y);
  };
  EXPECT_EQ(height("#0072b2"), height("#56b4e9"));  // forward's and backward's colours
}

TEST_F(TimelinePicture, RefusesWhatIsNotThere) {
  const auto of = [](const std::filesystem::path& file, std::int64_t step) {
    return [=] { (void)timeline_picture(file, step); };
  };
  EXPECT_THAT(of(file_, 7), ThrowsMessage<InputError>(HasSubstr("1 to 3")));
  EXPECT_THAT(of(folder_ / "none.json", 0), ThrowsMessage<InputError>(HasSubstr("cannot read")));
  EXPECT_THAT(of(folder_.write("text", "hello\n"), 0),
              ThrowsMessage<InputError>(HasSubstr("no steps")));
}

}  // namespace
}  // namespace kolo::testing
