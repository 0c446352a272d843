#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/file.h"
#include "kolo/parallel/timeline.h"
#include "parallel/timeline/trace_reader.h"
#include "support/rank_test.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {

namespace {

// A folder that rank 0 makes; all ranks get its name.
class SharedFolder {
 public:
  explicit SharedFolder(const Communicator& communicator) : communicator_(communicator) {
    std::array<char, 256> name{};
    if (communicator.rank() == 0) {
      own_.emplace();
      own_->path().string().copy(name.data(), name.size() - 1);
    }
    communicator.broadcast(std::span(name));
    path_ = name.data();
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() { communicator_.barrier(); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path file_of(int rank) const {
    return path_ / fmt::format("rank-{:05}.json", rank);
  }

 private:
  Communicator communicator_;
  std::optional<TemporaryFolder> own_;
  std::filesystem::path path_;
};

void train_like(const Communicator& communicator, const Timeline& timeline, int steps) {
  for (int step = 1; step <= steps; ++step) {
    const auto whole = timeline.step(step);
    { const auto span = timeline.span("forward"); }
    std::array<std::vector<float>, 2> buckets;
    std::vector<Work> works;
    {
      const auto span = timeline.span("backward");
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        buckets[i].resize(1000);
        works.push_back(communicator.all_reduce_async(std::span(buckets[i]), ReduceOp::average,
                                                      {.name = fmt::format("bucket {}", i)}));
      }
    }
    for (const Work& work : works) work.wait();
    timeline.span("reduced").end();
  }
}

RANK_TEST(Timeline, NamesItsSetsOfRanks) {
  const SharedFolder folder(communicator);
  {
    const Timeline timeline(communicator, folder.path());
    timeline.start();
    communicator.barrier();
    communicator.split(0, 0, "node")->barrier();
    communicator.split(0)->barrier();
  }
  const auto text = read_text_file(folder.file_of(communicator.rank()));
  EXPECT_TRUE(says(text, {R"("communication: node")", R"("communication: group )"}));
}

RANK_TEST(Timeline, RecordsStepsAndCollectives) {
  const SharedFolder folder(communicator);
  {
    const Timeline timeline(communicator, folder.path());
    EXPECT_FALSE(timeline.is_active());
    timeline.start();
    train_like(communicator, timeline, 3);
    EXPECT_EQ(timeline.problem(), "");
  }
  const auto trace = read_trace(folder.file_of(communicator.rank()));
  const auto steps = named(trace, "step"), forwards = named(trace, "forward"),
             backwards = named(trace, "backward"), marks = named(trace, "reduced");
  ASSERT_EQ(steps.size(), 3U);
  ASSERT_EQ(forwards.size(), 3U);
  ASSERT_EQ(backwards.size(), 3U);
  ASSERT_EQ(marks.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(steps[i].process, communicator.rank());
    EXPECT_TRUE(says(steps[i].text, {fmt::format(R"("args":{{"step":{}}})", i + 1)}));
    EXPECT_TRUE(steps[i].contains(forwards[i]));
    EXPECT_TRUE(steps[i].contains(backwards[i]));
    EXPECT_TRUE(steps[i].contains(marks[i]));
    EXPECT_LE(forwards[i].end(), backwards[i].start);
    EXPECT_EQ(steps[i].row, backwards[i].row);
  }
  std::vector<TraceLine> reductions;
  for (const char* const name : {"bucket 0", "bucket 1"}) {
    const auto spans = named(trace, name), waits = named(trace, name + std::string(" waits"), "b"),
               ends = named(trace, name + std::string(" waits"), "e");
    ASSERT_EQ(spans.size(), 3U);
    ASSERT_EQ(waits.size(), 3U);
    ASSERT_EQ(ends.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(steps[i].contains(spans[i])) << "it was waited for inside the step";
      EXPECT_LE(backwards[i].start, waits[i].start);
      EXPECT_LE(waits[i].start, ends[i].start);
      EXPECT_EQ(ends[i].start, spans[i].start) << "the wait ends where the reduction begins";
      EXPECT_TRUE(says(spans[i].text, {R"("count":1000,"dtype":"float32","bytes":4000)"}));
      EXPECT_NE(spans[i].row, steps[i].row);
    }
    reductions.insert(reductions.end(), spans.begin(), spans.end());
  }
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_LE(reductions[i].end(), reductions[i + 3].start) << "one behind the other";
}

// After a barrier that everybody has entered, nobody's clock shows less than anybody's before it.
RANK_TEST(Timeline, RanksShareOneTime) {
  const SharedFolder folder(communicator);
  {
    const Timeline timeline(communicator, folder.path());
    timeline.start();
    timeline.span("before").end();
    communicator.barrier();
    timeline.span("after").end();
  }
  communicator.barrier();
  double last_before = -1e300, first_after = 1e300;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const auto trace = read_trace(folder.file_of(rank));
    const auto before = named(trace, "before"), after = named(trace, "after");
    ASSERT_EQ(before.size(), 1U);
    ASSERT_EQ(after.size(), 1U);
    EXPECT_GE(before[0].start, 0);
    last_before = std::max(last_before, before[0].start);
    first_after = std::min(first_after, after[0].start);
  }
  if (communicator.topology().nodes == 1) {
    EXPECT_LE(last_before, first_after);
  }
}

RANK_TEST(Timeline, StartsAndStopsAtAnyTime) {
  const SharedFolder folder(communicator);
  const auto file = folder.file_of(communicator.rank());
  {
    const Timeline timeline(communicator, folder.path());
    timeline.span("too early").end();
    timeline.start();
    timeline.start();
    timeline.span("first").end();
    timeline.stop();
    EXPECT_EQ(named(read_trace(file), "first").size(), 1U) << "the file has it at once";
    timeline.stop();
    timeline.span("in between").end();
    communicator.barrier({.name = "unseen"});
    timeline.start();
    const Timeline same = timeline;
    same.span("second").end();
    communicator.barrier({.name = "seen"});
  }
  const auto trace = read_trace(file);
  EXPECT_EQ(named(trace, "first").size(), 1U);
  EXPECT_EQ(named(trace, "second").size(), 1U);
  EXPECT_EQ(named(trace, "seen").size(), 1U);
  for (const char* const name : {"too early", "in between"})
    EXPECT_EQ(named(trace, name).size(), 0U) << name;
  EXPECT_EQ(named(trace, "unseen").size(), 0U);
  communicator.barrier();  // with the timeline gone
}

RANK_TEST(Timeline, SetsOfRanksHaveRowsOfTheirOwn) {
  const SharedFolder folder(communicator);
  {
    const Timeline timeline(communicator, folder.path());
    timeline.start();
    const auto half = communicator.split(communicator.rank() % 2);
    communicator.barrier({.name = "all"});
    half->barrier({.name = "half"});
  }
  const auto trace = read_trace(folder.file_of(communicator.rank()));
  const auto all = named(trace, "all"), half = named(trace, "half");
  ASSERT_EQ(all.size(), 1U);
  ASSERT_EQ(half.size(), 1U);
  EXPECT_NE(all[0].row, half[0].row);
}

}  // namespace

}  // namespace kolo::testing
