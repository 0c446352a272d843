// Pages opened in a real browser, Debian's chromium; scripts/test --browser installs it.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/file.h"
#include "kolo/report/report.h"
#include "report/records.h"
#include "report/studies.h"
#include "support/process.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

class Browser : public ::testing::Test {
 protected:
  // The page's elements after its scripts have run. Fails when the browser had anything to complain
  // about.
  std::string elements_of(const Report& report, const std::string& scheme = "1",
                          const std::string& script = "") const {
    auto text = report_page(report_data(report, "today"));
    text.insert(text.rfind("</body>"), fmt::format("<script>{}</script>", script));
    const auto page = folder.write("page.html", text);
    const auto result = open_in_browser(page, scheme);
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_FALSE(says(result.errors, {"CONSOLE"}));
    return result.output;
  }

  // Chromium sometimes doesn't start; it gets another chance.
  ProcessResult open_in_browser(const std::filesystem::path& page,
                                const std::string& scheme) const {
    ProcessResult result;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const TemporaryFolder profile;
      result = run_process(
          {chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
           "--no-first-run", "--disable-background-networking",
           fmt::format("--blink-settings=preferredColorScheme={}", scheme),
           fmt::format("--user-data-dir={}", profile.path().string()), "--enable-logging=stderr",
           "--v=0", "--virtual-time-budget=5000", "--window-size=1300,1000", "--dump-dom",
           fmt::format("file://{}", page.string())},
          {.deadline = std::chrono::seconds(40)});
      if (!result.timed_out) break;
    }
    return result;
  }

  // Figures ("figures") or tables ("rows") of the page.
  static std::size_t number_of(const std::string& kind, const Report& report) {
    std::size_t number = 0;
    const auto data = report_data(report, "today");
    for (const auto& section : data.at("sections"))
      if (section.contains(kind)) number += kind == "rows" ? 1 : section[kind].size();
    return number;
  }

  void expect_all_drawn(const Report& report, const std::string& scheme = "1") const {
    const auto elements = elements_of(report, scheme);
    const auto figures = number_of("figures", report);
    ASSERT_GT(figures, 0U);
    EXPECT_EQ(count(elements, "<canvas"), figures);
    EXPECT_EQ(count(elements, "data-drawn=\"true\""), figures);
    EXPECT_EQ(count(elements, "<table"), number_of("rows", report));
  }

  static constexpr const char* chromium = "/usr/bin/chromium";
  TemporaryFolder folder;
};

Report runs_report(const std::string& name) {
  Report report{.title = name};
  Curve steps{"loss", "training", true, {}};
  for (int i = 0; i < 500; ++i)
    steps.points.push_back({5. / (i + 1), i / 90., 1. * i, 1000. + i, 1. * i});
  report.runs = {run_named(name, {epoch_curve("loss", "validation", {3, not_measured, 1}),
                                  epoch_curve("accuracy", "validation", {.3, .6, .9}),
                                  epoch_curve("epoch_seconds", "", {5, 5, 5}), steps})};
  return report;
}

Report two_runs() {
  auto report = runs_report("first");
  report.runs.push_back(report.runs[0]);
  report.runs[1].name = "second";
  return report;
}

TEST_F(Browser, DrawsARunByDayAndAtNight) {
  for (const std::string scheme : {"1", "0"}) expect_all_drawn(runs_report("a run"), scheme);
}

TEST_F(Browser, DrawsManyRunsAndAStudy) {
  auto report = runs_report("first");
  for (int i = 0; i < 9; ++i) {
    report.runs.push_back(report.runs[0]);
    report.runs.back().name = fmt::format("run {}", i);
  }
  report.study = small_study();
  report.warnings = {"half of it is missing"};
  expect_all_drawn(report);
}

// Uses every switch, and notes the axis of the loss's chart each time.
TEST_F(Browser, SwitchesAxesRunsAndScales) {
  auto report = two_runs();
  const auto elements = elements_of(report, "1", R"(
    const chart = () => Chart.getChart("canvas-loss");
    const seen = [];
    for (const axis of document.querySelectorAll("input[type=radio]")) {
      axis.click();
      seen.push(chart().options.scales.x.title.text, chart().data.datasets[0].data[1].x);
    }
    const shown = () => chart().data.datasets.filter((dataset) => !dataset.hidden).length;
    document.querySelector(".runs button").click();
    seen.push("shown", shown());
    document.querySelector(".runs button").click();
    seen.push("shown", shown());
    const lines = () => Chart.getChart("canvas-loss-by-step").data.datasets.length;
    seen.push("lines", lines());
    const slider = document.querySelector("input[type=range]");
    slider.value = 0;
    slider.dispatchEvent(new Event("input"));
    seen.push("lines", lines());
    document.querySelector("#loss figcaption button").click();
    seen.push(chart().options.scales.y.type);
    document.title = seen.join(" ");)");
  EXPECT_TRUE(says(elements,
                   {"<title>epoch 2 step 20 minutes since the start 0.16666666666666666 time (UTC) "
                    "1010 shown 1 shown 2 lines 4 lines 2 logarithmic</title>"}));
  EXPECT_EQ(count(elements, "data-drawn=\"true\""), number_of("figures", report));
}

TEST_F(Browser, FoldsManySettings) {
  auto report = two_runs();
  for (int i = 0; i < 15; ++i)
    for (auto& run : report.runs) run.settings.emplace_back(fmt::format("key_{}", i), run.name);
  const auto elements = elements_of(report, "1");
  const auto fold = elements.find("and 3 more settings</summary>");
  EXPECT_EQ(count(elements.substr(0, fold), ">key_"), 12U);
  EXPECT_EQ(count(elements.substr(std::min(fold, elements.size())), ">key_"), 3U);
}

// Constants and single points stand in the middle, ticks are round, deviations are drawn whole.
TEST_F(Browser, AxesAreRoundAndHoldEverything) {
  auto report = runs_report("a run");
  report.runs[0].curves.push_back(epoch_curve("learning_rate", "", {.001, .001, .001}));
  report.runs[0].curves.push_back(epoch_curve("samples_per_second", "", {250}));
  report.study = small_study();
  const auto elements = elements_of(report, "1", R"(
    const seen = [];
    const axis = (id, name) => Chart.getChart("canvas-" + id).scales[name];
    const labels = (id, name) => axis(id, name).ticks.map((tick) => tick.label).join(" ");
    seen.push(labels("learning-rate", "y"), labels("throughput", "x"), labels("throughput", "y"));
    seen.push(labels("accuracy", "y"), labels("scaling-efficiency", "y"));
    document.querySelector("input[value=wall]").click();
    seen.push(labels("throughput", "x"));
    document.title = seen.join("; ");)");
  EXPECT_TRUE(says(elements, {"<title>0 0.0005 0.001 0.0015 0.002; 0 1 2; 0 100 200 300 400 500; "
                              "20 40 60 80 100; 80 90 100 110 120; "
                              "00:16:43 00:16:44 00:16:45 00:16:46 00:16:47</title>"}));
}

TEST_F(Browser, DrawsASweepOfWords) {
  Report report{.title = "A sweep", .sweep = Sweep{}};
  for (const char* const name : {"adam", "sgd"}) {
    Trial trial;
    trial.settings = {std::string("optimizer.name=") + name};
    trial.best = name[0] == 'a' ? .9 : .8;
    report.sweep->trials.push_back(trial);
    report.trials.push_back(run_named(name, {}));
    report.trials.back().facts = {{"command", std::string("kolo train --config ") + name}};
  }
  expect_all_drawn(report);
  const auto elements = elements_of(report, "1", R"(
    const labels = Chart.getChart("canvas-sweep-key-1").scales.x.ticks.map((tick) => tick.label);
    document.title = labels.join(" ");)");
  EXPECT_TRUE(says(elements, {"<title>adam sgd</title>", "<dd>kolo train --config adam</dd>"}));
}

TEST_F(Browser, ShowsHostileNamesAsTheyAre) {
  const auto elements =
      elements_of(runs_report("<img src=x onerror=console.log(1)></script>{{x}}"));
  EXPECT_FALSE(says(elements, {"<img"}));
  EXPECT_TRUE(says(elements, {"&lt;img src=x onerror=console.log(1)&gt;&lt;/script&gt;{{x}}"}));
}

TEST_F(Browser, SaysThatThereIsNothing) {
  EXPECT_TRUE(says(elements_of(Report{.title = "Nothing"}), {"nothing to show yet"}));
}

}  // namespace
}  // namespace kolo::testing
