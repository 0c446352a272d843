// The page as a file: what is in it, and that nothing in it can break it or call out.
#include <algorithm>
#include <regex>

#include "kolo/base/error.h"
#include "kolo/report/report.h"
#include "report/records.h"
#include "report/studies.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* hostile = "</script><script>alert('\"&{{data}}</title>";

Report small_report() {
  Report report{.title = "A report"};
  report.runs = {run_named("first", {epoch_curve("loss", "validation", {3, not_measured, 1. / 3}),
                                     epoch_curve("loss", "training", {3.5, 2, 1})}),
                 run_named("second", {epoch_curve("loss", "validation", {2, 1})})};
  return report;
}

// Data that the page's script reads.
Json data_in(const std::string& page) {
  const std::string start = R"(<script type="application/json" id="data">)";
  const auto begin = page.find(start) + start.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(ReportPage, HoldsItsData) {
  const auto data = report_data(small_report(), "today");
  EXPECT_EQ(data_in(report_page(data)), data);
  EXPECT_THAT(data["summary"], "2 runs. Made today.");
  EXPECT_THAT(data["axes"], ElementsAre("epoch", "step", "relative", "wall"));
  EXPECT_EQ(data["axis"], "epoch");
  const auto& figure = data["sections"][1]["figures"][0];
  EXPECT_EQ(figure["id"], "loss");
  EXPECT_EQ(figure["x_label"]["step"], "step");
  const auto& series = figure["series"][0];
  EXPECT_EQ(series["x"]["step"], (Json{10, 20, 30}));
  EXPECT_EQ(series["x"]["wall"], (Json{1005, 1010, 1015}));
  EXPECT_EQ(series["y"], (Json{3, nullptr, 1. / 3}));
}

TEST(ReportPage, TellsHowRunsWereMade) {
  auto report = small_report();
  EXPECT_THAT(report_data(report, "today")["origins"], SizeIs(0));
  report.runs[1].facts = {{"command", hostile}};
  report.runs[1].configuration = "seed: 1\n";
  const auto page = data_in(report_page(report_data(report, "today")));
  const auto facts = Json::array({{"command", hostile}});
  EXPECT_EQ(page["origins"],
            Json::array({{{"name", "second"}, {"facts", facts}, {"configuration", "seed: 1\n"}}}));
}

TEST(ReportPage, NoDigitIsRounded) {
  auto curve = epoch_curve("loss", "validation", {.12345678901, 4.000000001, 98765432.5});
  for (std::size_t i = 0; i < 3; ++i) curve.points[i].step = 12345671 + static_cast<double>(i);
  const auto data = report_data({.title = "", .runs = {run_named("long", {curve})}}, "today");
  const auto& series = data["sections"][1]["figures"][0]["series"][0];
  EXPECT_EQ(series["x"]["step"], (Json{12345671, 12345672, 12345673}));
  EXPECT_EQ(series["y"], (Json{.12345678901, 4.000000001, 98765432.5}));
}

TEST(ReportPage, ShowsAStudyBeforeItsRuns) {
  auto report = small_report();
  report.study = small_study();
  const auto data = report_data(report, "today");
  std::vector<std::string> titles;
  for (const auto& section : data["sections"]) titles.push_back(section["title"]);
  EXPECT_THAT(titles, ElementsAre("Scaling", "Large batches", "The study", "Results", "Learning"));
  report.study_runs = 2;
  const auto sections = report_data(report, "today")["sections"];
  EXPECT_EQ(std::ranges::count_if(sections, [](const Json& each) { return each.contains("rows"); }),
            1)
      << "the study's table tells of its runs";
}

TEST(ReportPage, TextStaysText) {
  auto report = small_report();
  report.title = hostile;
  report.runs[0].name = hostile;
  report.runs[0].settings = {{hostile, hostile}};
  report.runs[1].settings = {{hostile, "\xff"}};  // no UTF-8
  report.warnings = {hostile};
  const auto calm = report_page(report_data(small_report(), "today"));
  const auto page = report_page(report_data(report, "today"));
  EXPECT_FALSE(says(page, {"alert('\"&{{data}}</title>"}));
  EXPECT_TRUE(says(page, {"&lt;/script&gt;&lt;script&gt;alert(&#39;&quot;&amp;{{data}}"}));
  for (const char* const part : {"<script", "</script", "<title", "</title", "<style", "<!--"})
    EXPECT_EQ(count(page, part), count(calm, part)) << part;
  const auto data = data_in(page);
  EXPECT_EQ(data["title"], hostile);
  EXPECT_EQ(data["runs"][0], hostile);
}

TEST(ReportPage, PicturesAreInThePage) {
  auto report = small_report();
  for (const char* const bytes : {"", "M", "Ma", "Man"})
    report.runs[1].pictures.push_back({hostile, bytes});
  const auto data = report_data(report, "today");
  const auto& section = data["sections"].back();
  EXPECT_EQ(section["title"], "Predictions: second");
  std::vector<std::string> texts;
  for (const auto& picture : section["pictures"]) texts.push_back(picture["png"]);
  EXPECT_THAT(texts, ElementsAre("", "TQ==", "TWE=", "TWFu"));
  EXPECT_EQ(section["pictures"][0]["caption"], hostile);
}

// Checks the page's markup, style and scripts, Chart.js among them, for whatever loads something.
TEST(ReportPage, AsksForNothing) {
  const auto page = report_page(report_data(small_report(), "today"));
  EXPECT_TRUE(says(page, {"default-src 'none'", "connect-src 'none'"}));
  EXPECT_FALSE(std::regex_search(page, std::regex("<[a-z]+ [^>]*(src|href|srcset|action)=")));
  EXPECT_FALSE(std::regex_search(page, std::regex("url\\(|@import|<link|<iframe|<base")));
  EXPECT_TRUE(says(page, {"Released under the MIT License"}));
}

class ReadReport : public ::testing::Test {
 protected:
  std::string write_run(const std::string& name) const {
    folder.write(name + "/history.json",
                 R"({"n_ranks":2,"epochs":[{"epoch":1,"step":9,"val_loss":0.5}],"summary":{}})");
    return folder / name;
  }
  std::string write_study() const {
    auto study = small_study();
    study.points[1].folder = "runs/2";
    write_run("study/runs/2");
    study.points[0].folder = study.points[2].folder = "runs/1";  // they train alike
    write_run("study/runs/1");
    study.write(folder / "study/study.json");
    return folder / "study";
  }
  static Report read(std::vector<std::filesystem::path> paths) { return read_report(paths); }
  TemporaryFolder folder;
};

TEST_F(ReadReport, NamesTheReport) {
  EXPECT_EQ(read({write_run("a")}).title, "a");
  folder.write("a/config.yaml", "description: Digits\n");
  EXPECT_EQ(read({folder / "a"}).title, "Digits");
  EXPECT_EQ(read({write_run("a"), write_run("b")}).title, "2 runs compared");
  EXPECT_EQ(read({write_study()}).title, "A study");
}

TEST_F(ReadReport, AStudyBringsItsRuns) {
  const auto study = read({write_run("a"), write_study()});
  ASSERT_TRUE(study.study);
  EXPECT_EQ(study.study_runs, 2U);
  ASSERT_THAT(study.runs, SizeIs(3));
  EXPECT_EQ(study.runs[0].name, "1 rank, unscaled");
  EXPECT_EQ(study.runs[1].name, "2 ranks, linear, no warm-up");
  EXPECT_EQ(study.runs[2].name, "a");
  EXPECT_THAT(study.runs_of_points, ElementsAre(0U, 1U, 0U, std::nullopt, std::nullopt));
}

TEST_F(ReadReport, RefusesWhatItCannotShow) {
  const auto message = [&](std::vector<std::filesystem::path> paths) {
    return message_of<InputError>([&] { (void)read(std::move(paths)); });
  };
  const auto study = write_study();
  EXPECT_TRUE(says(message({study, study}), {"is a second study"}));
  EXPECT_TRUE(says(message({folder / "nothing"}), {(folder / "nothing").string()}));
  folder.write("broken/study.json", "{");
  EXPECT_TRUE(says(message({folder / "broken"}), {"study.json"}));
}

}  // namespace
}  // namespace kolo::testing
