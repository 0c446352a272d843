// kolo timeline, and what kolo train --timeline records, through the binary.
#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "kolo/base/file.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using nlohmann::json;

json read_json(const std::filesystem::path& file) {
  const auto content = json::parse(read_text_file(file));
  return content.is_object() ? content.at("traceEvents") : content;
}

class TimelineProgram : public ::testing::Test {
 protected:
  // Files as two ranks leave them, the second of which was killed.
  TimelineProgram() {
    const std::string step =
        R"({{"name":"step","ph":"X","pid":{},"tid":1,"ts":{}.5,"dur":2.0,"args":{{}}}})";
    const auto line = [&](int rank, int time) {
      return fmt::format(fmt::runtime(step), rank, time) + ",\n";
    };
    folder.write("trace/rank-00000.json", "[\n" + line(0, 1) + line(0, 4) + "]\n");
    folder.write("trace/rank-00001.json", "[\n" + line(1, 2) + R"({"name":"st)");
  }

  ProcessResult timeline(const std::filesystem::path& trace, const std::filesystem::path& output) {
    return run_kolo({"timeline", trace, "-o", output});
  }

  TemporaryFolder folder;
};

TEST_F(TimelineProgram, MakesOneFileOfAllRanks) {
  const auto output = folder / "all.json";
  EXPECT_TRUE(succeeds(timeline(folder / "trace", output),
                       {"all.json: 3 events of 2 ranks\n", "left out 1 event that a killed rank"}));
  std::vector<std::pair<int, double>> found;
  for (const json& event : read_json(output)) found.emplace_back(event["pid"], event["ts"]);
  EXPECT_THAT(found, ::testing::UnorderedElementsAre(std::pair(0, 1.5), std::pair(0, 4.5),
                                                     std::pair(1, 2.5)));
}

TEST_F(TimelineProgram, SaysWhatIsWrong) {
  const auto trace = folder / "trace";
  expect_refused(timeline(folder / "nowhere", folder / "a.json"), "nowhere");
  std::filesystem::create_directory(folder / "empty");
  expect_refused(timeline(folder / "empty", folder / "a.json"), "holds no rank-*.json");
  expect_refused(timeline(trace, folder / "nowhere/a.json"), (folder / "nowhere").string());
  expect_refused(timeline(trace, trace), "is a folder");
  expect_refused(timeline(trace / "rank-00000.json", folder / "a.json"), "is no folder");
  expect_refused(run_kolo({"timeline"}), "FOLDER is missing");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.json"));
}

TEST_F(TimelineProgram, RefusesWhatNoRankHasWritten) {
  for (const auto* const content : {"", "[\n", "null\n", "[]\n", "{\n", "{\"traceEvents\":3}\n",
                                    "[\n{\"traceEvents\":3}\n]\n"}) {
    folder.write("other/rank-00000.json", content);
    expect_refused(timeline(folder / "other", folder / "a.json"), "other/rank-00000.json");
    EXPECT_FALSE(std::filesystem::exists(folder / "a.json")) << content;
  }
}

TEST_F(TimelineProgram, WritesOverNothingButItsOwn) {
  const auto trace = folder / "trace", output = folder / "all.json";
  const auto before = read_text_file(trace / "rank-00000.json");
  expect_refused(timeline(trace, trace / "rank-00000.json"), "choose another name");
  expect_refused(timeline(trace, trace / "rank-all.json"), "choose another name");
  EXPECT_EQ(read_text_file(trace / "rank-00000.json"), before);
  folder.write("history.json", "{}");
  expect_refused(timeline(trace, folder / "history.json"), "is not a timeline");
  expect_refused(timeline(trace, folder / "all.svg"), "ends with .json");
  EXPECT_EQ(timeline(trace, output).exit_code, 0);
  EXPECT_EQ(timeline(trace, output).exit_code, 0) << "again";
}

// A span; all times in microseconds.
struct Span {
  double start, end;

  [[nodiscard]] bool holds(const Span& other) const {
    return start <= other.start + rounding && other.end <= end + rounding;
  }
  [[nodiscard]] bool ends_before(const Span& other) const { return end <= other.start + rounding; }

  static constexpr double rounding = .002;
};

// One rank's spans by name, in order of time.
std::vector<Span> spans(const json& events, int rank, const std::string& name,
                        std::optional<int> bucket = {}) {
  std::vector<Span> found;
  for (const json& event : events) {
    if (event["pid"] != rank || event["name"] != name || event["ph"] == "e") continue;
    if (bucket && event["args"]["bucket"] != *bucket) continue;
    const double start = event["ts"];
    if (event["ph"] == "X") found.push_back({start, start + event["dur"].get<double>()});
    if (event["ph"] != "b") continue;
    const auto end = std::ranges::find_if(events, [&](const json& other) {
      return other["ph"] == "e" && other["pid"] == rank && other["name"] == name &&
             other["id2"] == event["id2"];
    });
    EXPECT_NE(end, events.end()) << name;
    if (end != events.end()) found.push_back({start, (*end)["ts"]});
  }
  std::ranges::sort(found, {}, &Span::start);
  return found;
}

void expect_sensible_step(const json& events, int rank, std::size_t step) {
  SCOPED_TRACE(fmt::format("rank {}, step {}", rank, step));
  const auto of = [&](const std::string& name) { return spans(events, rank, name).at(step); };
  const Span whole = of("step"), forward = of("forward"), backward = of("backward");
  EXPECT_TRUE(of("data wait").ends_before(whole));
  EXPECT_TRUE(whole.holds(forward));
  EXPECT_TRUE(whole.holds(backward));
  EXPECT_TRUE(forward.ends_before(backward));
  for (const int bucket : {0, 1}) {
    const Span reduction = of(fmt::format("bucket {}", bucket));
    const Span waits = of(fmt::format("bucket {} waits", bucket));
    const Span wait = spans(events, rank, "wait for bucket", bucket).at(step);
    const Span update = spans(events, rank, "update bucket", bucket).at(step);
    EXPECT_TRUE(whole.holds(reduction));
    EXPECT_GE(waits.start, backward.start - Span::rounding) << "the bucket is ready in backward";
    EXPECT_TRUE(waits.ends_before(reduction));
    EXPECT_LE(reduction.end, wait.end + Span::rounding) << "waited for until it is reduced";
    EXPECT_TRUE(whole.holds(wait));
    EXPECT_TRUE(wait.ends_before(update));
    EXPECT_TRUE(whole.holds(update));
  }
}

TEST(TrainTimeline, HasEveryStepOfEveryRank) {
  TemporaryFolder folder;
  const auto config = folder.write(
      "c.yaml",
      "data: {name: dummy, n_train: 256, n_valid: 64, input_shape: [1, 28, 28]}\n"
      "model: {name: mnist_net}\noptimizer: {name: sgd, lr: 0.01}\ntraining: {batch_size: 16}\n"
      "communication: {bucket_mb: 0.05}\n");
  const auto run = folder / "run";
  ASSERT_TRUE(succeeds(run_kolo({"train", config, "-n", "2", "--timeline", "--output", run}),
                       {"timeline in " + (run / "timeline.json").string()}));
  const auto events = read_json(run / "timeline.json");
  for (const int rank : {0, 1}) {
    ASSERT_EQ(spans(events, rank, "step").size(), 8U) << "256 samples, 2 ranks, batches of 16";
    EXPECT_EQ(spans(events, rank, "validation").size(), 2U) << "untrained, and after the epoch";
    for (std::size_t step = 0; step < 8; ++step) expect_sensible_step(events, rank, step);
  }
  std::filesystem::remove(run / "timeline.json");
  ASSERT_TRUE(succeeds(run_kolo({"timeline", run})));
  EXPECT_EQ(spans(read_json(run / "timeline.json"), 1, "step").size(), 8U);
}

}  // namespace
}  // namespace kolo::testing
