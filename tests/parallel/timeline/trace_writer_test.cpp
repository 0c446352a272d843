#include "parallel/timeline/trace_writer.h"

#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(JsonString, EscapesWhatJsonRequires) {
  EXPECT_EQ(json_string("bucket 3"), "\"bucket 3\"");
  EXPECT_EQ(json_string("a\"b\\c\n\t\x01"), R"("a\"b\\c\u000a\u0009\u0001")");
  EXPECT_EQ(json_string("größe ☃ 𝄞"), "\"größe ☃ 𝄞\"");
  EXPECT_EQ(json_string("\xff|\xc3|\xed\xa0\x80|\xc0\xaf"),
            R"("\ufffd|\ufffd|\ufffd\ufffd\ufffd|\ufffd\ufffd")");
}

TEST(TraceWriter, WritesTheEventFormat) {
  const TemporaryFolder folder;
  const auto path = folder / "trace.json";
  {
    TraceWriter writer(path, {.process = 3, .process_name = "rank 3"});
    writer.name_row(1, "training");
    writer.write({.row = 1,
                  .start = 1500,
                  .end = 4000,
                  .name = "forward",
                  .arguments = {{"step", 7}, {"of", "mnist \"net\""}}});
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

TEST(TraceWriter, TheFileIsCompleteToTheLastEventAfterEachFlush) {
  const TemporaryFolder folder;
  TraceWriter writer(folder / "trace.json", {});
  for (int i = 0; i < 3; ++i) {
    writer.write({.start = i, .end = i + 1, .name = "event"});
    writer.flush();
    const auto text = read_text_file(folder / "trace.json");
    EXPECT_EQ(count(text, "\"event\""), static_cast<std::size_t>(i + 1));
    EXPECT_THAT(text, StartsWith("[\n"));
    EXPECT_THAT(text, EndsWith("}"));
  }
}

TEST(TraceWriter, WritesByItselfSoonAfter) {
  const TemporaryFolder folder;
  TraceWriter writer(folder / "trace.json", {.flush_interval = std::chrono::milliseconds(10)});
  writer.write({.name = "event"});
  while (count(read_text_file(folder / "trace.json"), "\"event\"") == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(TraceWriter, ThreadsLoseNothing) {
  const TemporaryFolder folder;
  {
    TraceWriter writer(folder / "trace.json", {});
    std::vector<std::thread> threads;
    for (int row = 0; row < 4; ++row) {
      threads.emplace_back([&writer, row] {
        for (int i = 0; i < 5000; ++i) writer.write({.row = row, .start = i, .name = "event"});
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(writer.dropped(), 0U);
  }
  EXPECT_EQ(count(read_text_file(folder / "trace.json"), "\"event\""), 20000U);
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
    TraceWriter writer(path, {.queue_limit = 100});
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
  EXPECT_EQ(count(text, "\"event\"") + dropped, static_cast<std::size_t>(written));
  EXPECT_TRUE(says(text, {"events dropped: the queue was full"}));
}

TEST(TraceWriter, AFullDiskIsAProblemButNoFailure) {
  TraceWriter writer("/dev/full", {});
  writer.write({.name = "event"});
  writer.flush();
  EXPECT_TRUE(says(writer.problem(), {"/dev/full"}));
}

TEST(TraceWriter, AFileThatCannotBeMadeIsWrongInput) {
  const TemporaryFolder folder;
  try {
    const TraceWriter writer(folder / "missing" / "trace.json", {});
    FAIL() << "no such folder";
  } catch (const InputError& error) {
    EXPECT_TRUE(says(error.what(), {"trace.json"}));
  }
}

}  // namespace
}  // namespace kolo::testing
