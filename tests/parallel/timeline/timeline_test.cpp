#include "kolo/parallel/timeline.h"

#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "parallel/timeline/timeline_recorder.h"
#include "parallel/timeline/trace_reader.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

// Sets a variable of this process's environment for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Timeline, TheEnvironmentStartsIt) {
  const TemporaryFolder folder;
  EXPECT_FALSE(Timeline::from_environment(Communicator::solo()).is_active());
  const Variable variable("KOLO_TIMELINE", folder / "new" / "folder");
  {
    const auto timeline = Timeline::from_environment(Communicator::solo());
    EXPECT_TRUE(timeline.is_active());
    timeline.span("here").end();
  }
  const auto trace = read_trace(folder / "new" / "folder" / "rank-00000.json");
  EXPECT_EQ(named(trace, "here").size(), 1U);
}

TEST(Timeline, AnInactiveOneDoesNothing) {
  const Timeline none;
  none.start();
  { const auto span = none.span("forward"); }
  none.span("now").end();
  none.stop();
  EXPECT_FALSE(none.is_active());
}

TEST(Timeline, AFolderThatCannotBeMadeIsWrongInput) {
  const TemporaryFolder folder;
  const Timeline timeline(Communicator::solo(), folder.write("file", "") / "below");
  EXPECT_THROW(timeline.start(), InputError);
}

TEST(Timeline, SpansOfThreadsLieOnRowsOfTheirOwnAndMayOutliveIt) {
  const TemporaryFolder folder;
  Timeline::Span late;
  {
    const Timeline timeline(Communicator::solo(), folder.path());
    timeline.start();
    { const auto span = timeline.span("here"); }
    std::thread([&] { const auto span = timeline.span("there", "batch", 5); }).join();
    auto moved = timeline.span("moved");
    moved = timeline.span("second");
    moved.end();
    moved.end();
    late = timeline.span("late");
  }
  late.end();
  const auto trace = read_trace(folder / "rank-00000.json");
  const auto here = named(trace, "here"), there = named(trace, "there");
  ASSERT_EQ(here.size(), 1U);
  ASSERT_EQ(there.size(), 1U);
  EXPECT_NE(here[0].row, there[0].row);
  EXPECT_TRUE(says(there[0].text, {R"("args":{"batch":5})"}));
  const auto moved = named(trace, "moved"), second = named(trace, "second");
  ASSERT_EQ(moved.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_NEAR(moved[0].end(), second[0].start, .0021) << "one phase ends where the next begins";
  EXPECT_EQ(named(trace, "late").size(), 0U);
}

TEST(Timeline, AFailedCollectiveSaysSo) {
  const TemporaryFolder folder;
  const auto solo = Communicator::solo();
  {
    const Timeline timeline(solo, folder.path());
    timeline.start();
    const Work work = solo.enqueue([](const Communicator&) { throw Error("broken on purpose"); },
                                   {.name = "a task"});
    EXPECT_THROW(work.wait(), Error);
  }
  const auto spans = named(read_trace(folder / "rank-00000.json"), "a task");
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_TRUE(says(spans[0].text, {R"("result":"failed")"}));
}

TEST(Timeline, ATaskHasASpanAroundThoseOfItsCollectives) {
  const TemporaryFolder folder;
  const auto solo = Communicator::solo();
  {
    const Timeline timeline(solo, folder.path());
    timeline.start();
    const Work work = solo.enqueue(
        [](const Communicator& ranks) {
          ranks.barrier({.name = "first"});
          ranks.barrier({.name = "second"});
        },
        {.name = "a task"});
    work.wait();
  }
  const auto trace = read_trace(folder / "rank-00000.json");
  const auto tasks = named(trace, "a task"), first = named(trace, "first"),
             second = named(trace, "second");
  ASSERT_EQ(tasks.size(), 1U);
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(tasks[0].contains(first[0]));
  EXPECT_TRUE(tasks[0].contains(second[0]));
}

TEST(MergeTimelines, LeavesOutWhatAKilledRankDidNotFinish) {
  const TemporaryFolder folder;
  const std::string event = R"({"name":"a \"}{\" name","ph":"X","args":{"step":1}})";
  folder.write("rank-00000.json", "[\n" + event + ",\n" + event + "\n]\n");
  folder.write("rank-00001.json", "[\n" + event + ",\n" + event.substr(0, event.size() - 1));
  folder.write("rank-00002.json", "[\n" + event + ",\n" + R"({"name":"cut off })");
  folder.write("rank-00003.json", "");
  folder.write("notes.json", "{}");
  const auto output = folder / "timeline.json";
  const auto merged = merge_timelines(folder.path(), output);
  EXPECT_EQ(merged.files, 4);
  EXPECT_EQ(merged.events, 4);
  EXPECT_EQ(merged.damaged, 2);
  EXPECT_EQ(read_text_file(output),
            "[\n" + event + ",\n" + event + ",\n" + event + ",\n" + event + "\n]\n");
}

TEST(MergeTimelines, AFolderWithoutTimelinesIsWrongInput) {
  const TemporaryFolder folder;
  EXPECT_THROW((void)merge_timelines(folder.path(), folder / "out.json"), InputError);
  EXPECT_THROW((void)merge_timelines(folder / "missing", folder / "out.json"), InputError);
  EXPECT_FALSE(std::filesystem::exists(folder / "out.json"));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(JsonString, EscapesWhatJsonRequires) {
  EXPECT_EQ(json_string("bucket 3"), "\"bucket 3\"");
  EXPECT_EQ(json_string("a\"b\\c\n\t\x01"), R"("a\"b\\c\u000a\u0009\u0001")");
  EXPECT_EQ(json_string("größe ☃ 𝄞"), "\"größe ☃ 𝄞\"");
}

TEST(TraceWriter, WritesTheEventFormat) {
  const TemporaryFolder folder;
  const auto path = folder / "trace.json";
  {
    TraceWriter writer(path, 3, "rank 3");
    writer.name_row(1, "training");
    writer.write({.row = 1,
                  .start = 1500,
                  .end = 4000,
                  .name = "forward",
                  .arguments = R"("step":7,"of":)" + json_string("mnist \"net\"")});
    writer.write({.kind = TraceEvent::Kind::wait, .row = 2, .start = 10, .end = 20, .name = "w"});
    writer.write({.kind = TraceEvent::Kind::instant, .row = 1, .start = 5000, .name = "now"});
  }
  EXPECT_EQ(read_text_file(path), R"([
{"name":"process_name","ph":"M","pid":3,"tid":0,"args":{"name":"rank 3"}},
{"name":"process_sort_index","ph":"M","pid":3,"tid":0,"args":{"sort_index":3}},
{"name":"thread_name","ph":"M","pid":3,"tid":1,"args":{"name":"training"}},
{"name":"thread_sort_index","ph":"M","pid":3,"tid":1,"args":{"sort_index":1}},
{"name":"forward","ph":"X","pid":3,"tid":1,"ts":1.500,"dur":2.500,"args":{"step":7,"of":"mnist \"net\""}},
{"name":"w","ph":"b","pid":3,"tid":2,"ts":0.010,"cat":"wait","id2":{"local":"1"},"args":{}},
{"name":"w","ph":"e","pid":3,"tid":2,"ts":0.020,"cat":"wait","id2":{"local":"1"}},
{"name":"now","ph":"i","pid":3,"tid":1,"ts":5.000,"s":"p","args":{}}
]
)");
}

TEST(TraceWriter, ThreadsLoseNothing) {
  const TemporaryFolder folder;
  {
    TraceWriter writer(folder / "trace.json", 0, "");
    std::vector<std::thread> threads;
    for (int row = 0; row < 4; ++row) {
      threads.emplace_back([&writer, row] {
        for (int i = 0; i < 5000; ++i) writer.write({.row = row, .start = i, .name = "event"});
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(writer.dropped(), 0U);
  }
  EXPECT_EQ(count_of(read_text_file(folder / "trace.json"), "\"event\""), 20000U);
}

// A named pipe that nobody empties stands for a disk that hangs.
TEST(TraceWriter, DropsAndSaysSoWhenTheDiskIsSlowAndNeverWaits) {
  const TemporaryFolder folder;
  const auto path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  FileDescriptor reader(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  std::string text;
  std::thread empties;
  std::uint64_t dropped = 0;
  constexpr int written = 20000;
  {
    TraceWriter writer(path, 0, "", 100);
    for (int i = 0; i < written; ++i) writer.write({.start = i, .name = "event"});
    dropped = writer.dropped();
    EXPECT_GT(dropped, 0U);
    empties = std::thread([&] {
      std::string buffer(4096, ' ');
      while (!text.ends_with("\n]\n")) {
        const auto size = ::read(reader.get(), buffer.data(), buffer.size());
        if (size > 0) text.append(buffer, 0, static_cast<std::size_t>(size));
      }
    });
  }
  empties.join();
  EXPECT_EQ(count_of(text, "\"event\"") + dropped, static_cast<std::size_t>(written));
  EXPECT_TRUE(says(text, {"events dropped: the queue was full"}));
}

TEST(TraceWriter, AFullDiskIsAProblemButNoFailure) {
  TraceWriter writer("/dev/full", 0, "");
  writer.write({.name = "event"});
  writer.flush();
  EXPECT_TRUE(says(writer.problem(), {"/dev/full"}));
}

}  // namespace
}  // namespace kolo::testing
