// kolo report, through the program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <httplib.h>
#include <nlohmann/json.hpp>

#include "cli/background.h"
#include "kolo/base/file.h"
#include "kolo/train/observe/history.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using nlohmann::json;

class ReportProgram : public ::testing::Test {
 protected:
  // A run that has done so many epochs.
  std::string write_run(const std::string& name, int epochs) const {
    History history(2);
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      history.add(EpochRecord{.epoch = epoch,
                              .step = 10 * epoch,
                              .loss = 2. / epoch,
                              .val_loss = 3. / epoch,
                              .val_accuracy = 1 - 1. / (1 + epoch),
                              .seconds = 2,
                              .time = 1000. + 2 * epoch});
    }
    std::filesystem::create_directories(folder / name);
    history.write(folder / name / "history.json");
    return folder / name;
  }

  [[nodiscard]] static ProcessResult report(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "report");
    return run_kolo(arguments);
  }

  void expect_refused(const ProcessResult& result, const std::string& words) const {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.output, "");
    EXPECT_TRUE(says(result.errors, {words}));
    EXPECT_FALSE(std::filesystem::exists(page)) << "nothing is written";
  }

  TemporaryFolder folder;
  std::string page = (folder / "page.html").string();
};

TEST_F(ReportProgram, WritesAPage) {
  const auto first = write_run("first", 3), second = write_run("second", 2);
  const auto result = report({first, second, "-o", page, "--target", "0.7"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(says(result.output, {fmt::format("{}: 2 runs, ", page)}));
  const auto text = read_text_file(page);
  for (const char* const part : {"Chart.js v3", "second did not reach 70 %"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST_F(ReportProgram, SaysWhatIsWrong) {
  const auto run = write_run("run", 3);
  expect_refused(report({(folder / "nowhere").string(), "-o", page}), "nowhere");
  expect_refused(report({run, "-o", (folder / "nowhere/page.html").string()}),
                 "there is no folder");
  expect_refused(report({run, "-o", run}), "is a folder");
  expect_refused(report({run, "-o", page, "--target", "60"}), "60 % is --target 0.6");
  expect_refused(report({run, "-o", page, "--axis", "days"}), "--axis");
  for (const std::string option : {"--figures", "--format"})
    expect_refused(report({run, "-o", page, option, "png"}),
                   "report: " + option + ": kolo-plot draws figures for papers");
  expect_refused(report({run, "-o", page, "--watch"}), "--watch");
  expect_refused(report({}), "RUN... is missing");
}

TEST_F(ReportProgram, WritesOverNothingButItsOwnPages) {
  const auto run = write_run("run", 3);
  const auto history = read_text_file(run + "/history.json");
  const auto expect_kept = [&](const std::string& file, const std::string& words) {
    const auto before = read_text_file(file);
    expect_refused(report({run, "-o", file}), words);
    EXPECT_EQ(read_text_file(file), before) << file;
  };
  expect_kept(run + "/history.json", "ends with .html");
  expect_kept(folder.write("notes.html", "<!DOCTYPE html>mine"), "is not a page of kolo report");
  expect_kept(folder.write("notes", "mine"), "is not a page of kolo report");
  expect_refused(report({run, "-o", (folder / "page.pdf").string()}), "a page of kolo report");
  expect_refused(report({run, "-o", "/dev/null"}), "no file");
  EXPECT_EQ(read_text_file(run + "/history.json"), history);

  // Its own, and an empty file, may be replaced.
  folder.write("page.html", "");
  for (int time = 0; time < 2; ++time) {
    const auto again = report({run, "-o", page});
    EXPECT_EQ(again.exit_code, 0) << again.errors;
  }
}

// Connections on which a request is begun, but goes no further.
std::vector<FileDescriptor> connections_to(int port, int count) {
  std::vector<FileDescriptor> connections;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < count; ++i) {
    FileDescriptor connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const std::string_view begin = "GET / HT";
    if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
            0 ||
        ::send(connection.get(), begin.data(), begin.size(), MSG_NOSIGNAL) < 0)
      break;
    connections.push_back(std::move(connection));
  }
  return connections;
}

// What the program is to do and what happens meanwhile: `meanwhile` gets its address.
class WatchingReport : public ReportProgram {
 protected:
  ProcessResult watch(const std::vector<std::string>& runs,
                      const std::function<void(httplib::Client&)>& meanwhile) const {
    return watch_on_port(runs, [&](int port) {
      httplib::Client client("127.0.0.1", port);
      meanwhile(client);
    });
  }
  ProcessResult watch_on_port(const std::vector<std::string>& runs,
                              const std::function<void(int)>& meanwhile) const {
    const auto said = folder / "said";
    // Its output is a file here, so that it can be read before the end.
    const std::string script =
        fmt::format(R"(exec "$0" report "$@" --watch --port 0 > {})", said.string());
    std::vector<std::string> command = {"sh", "-c", script, KOLO_PROGRAM};
    command.insert(command.end(), runs.begin(), runs.end());
    const std::jthread other([&] {
      const int port = wait_for_port(said);
      if (port > 0) meanwhile(port);
      signal_processes_with_argument(folder.path(), SIGINT);
    });
    return run_process(command, {.deadline = std::chrono::seconds(60)});
  }

  static json data_of(httplib::Client& client) {
    const auto answer = client.Get("/data.json");
    return answer && answer->status == 200 ? json::parse(answer->body) : json();
  }

 private:
  static int wait_for_port(const std::filesystem::path& said) {
    const std::string before = "http://127.0.0.1:";
    for (int i = 0; i < 4000; ++i) {
      std::error_code none;
      const auto text = std::filesystem::exists(said, none) ? read_text_file(said) : "";
      if (text.ends_with("\n")) return std::stoi(text.substr(text.find(before) + before.size()));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "the program never said where it serves";
    return 0;
  }
};

TEST_F(WatchingReport, FollowsRuns) {
  const auto result = watch({(folder / "later").string()}, [&](httplib::Client& client) {
    const auto before = data_of(client);
    EXPECT_TRUE(says(before.dump(), {"waiting: "}));
    EXPECT_TRUE(before["runs"].empty());
    for (const int epochs : {2, 3}) {
      write_run("later", epochs);
      const auto data = data_of(client);
      EXPECT_EQ(data["runs"], json{"later"});
      EXPECT_EQ(data["sections"][1]["figures"][0]["series"][0]["y"].size(), std::size_t(epochs));
    }
    const auto answer = client.Get("/");
    ASSERT_TRUE(answer);
    EXPECT_NE(answer->body.find("data-live=\"true\""), std::string::npos);
  });
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_FALSE(std::filesystem::exists("report.html"));
}

// A run that is in its first epoch, of 100 steps, and has done so many.
void write_begun_run(const std::filesystem::path& folder, int steps) {
  History history(1);
  history.add(EpochRecord{.val_loss = 3, .time = 1000});
  history.begin({.epoch = 1, .last_step = 100});
  for (int step = 10; step <= steps; step += 10)
    history.add(StepRecord{.step = step, .loss = 2. / step, .lr = .1, .time = 1000. + step});
  std::filesystem::create_directories(folder);
  history.write(folder / "history.json");
}

// The first figure of that name; null: there is none.
json figure_of(const json& data, const std::string& id) {
  for (const auto& section : data["sections"]) {
    for (const auto& figure : section.value("figures", json::array()))
      if (figure["id"] == id) return figure;
  }
  return {};
}

TEST_F(WatchingReport, FollowsARunWithinAnEpoch) {
  const auto run = folder / "begun";
  write_begun_run(run, 10);
  const auto result = watch({run.string()}, [&](httplib::Client& client) {
    for (const int steps : {20, 50}) {
      write_begun_run(run, steps);
      const auto figure = figure_of(data_of(client), "loss-by-step");
      ASSERT_FALSE(figure.is_null());
      const auto& series = figure["series"][0];
      ASSERT_EQ(series["y"].size(), static_cast<std::size_t>(steps / 10));
      EXPECT_EQ(series["x"]["epoch"].back(), steps / 100.) << "so much of the epoch is done";
    }
  });
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST_F(ReportProgram, DrawsARunWithinItsFirstEpoch) {
  write_begun_run(folder / "begun", 30);
  const auto result = report({folder / "begun", "-o", page});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(says(read_text_file(page), {"Loss, step by step", "0.3"}));
}

TEST_F(WatchingReport, AnswersThisMachineOnly) {
  const auto result = watch({write_run("run", 1)}, [&](httplib::Client& client) {
    const auto status = [&](const std::string& path, const std::string& host) {
      const auto answer = client.Get(path.c_str(), {{"Host", host}});
      return answer ? answer->status : 0;
    };
    EXPECT_EQ(status("/data.json", "localhost:1"), 200) << "a forwarded port";
    EXPECT_EQ(status("/data.json", "elsewhere.example"), 403);
    EXPECT_EQ(status("/etc/passwd", "localhost"), 404);
  });
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

// As of a browser that opens them ahead, or of a tunnel whose other end has gone to sleep.
TEST_F(WatchingReport, ClientsThatSayNothingKeepNoOthersWaiting) {
  const auto result = watch_on_port({write_run("run", 1)}, [&](int port) {
    const std::vector<FileDescriptor> silent = connections_to(port, 300);
    ASSERT_EQ(silent.size(), 300U);
    httplib::Client client("127.0.0.1", port);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(data_of(client).is_null());
  });
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST_F(WatchingReport, SharesItsPortWithNobody) {
  httplib::Server other;
  const int port = other.bind_to_any_port("127.0.0.1");
  const auto number = fmt::format("{}", port);
  expect_refused(report({write_run("run", 1), "--watch", "--port", number}), "is taken");
}

}  // namespace
}  // namespace kolo::testing
