#include "kolo/train/observe/run_log.h"

#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/train/observe/progress.h"
#include "support/errors.h"
#include "support/expect_end.h"
#include "support/process.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::MatchesRegex;

void say_everything(RunLog& log) {
  log.debug("detail {}", 1);
  log.info("epoch {}/{}", 2, 5);
  log.warn("slow {:.1f}", 0.25);
}

TEST(RunLog, TheConsoleShowsAllButDetails) {
  const auto shown = [](bool colour) {
    std::ostringstream console;
    RunLog log({.console = &console, .colour = colour, .file = {}});
    say_everything(log);
    return console.str();
  };
  EXPECT_EQ(shown(false), "epoch 2/5\nwarning: slow 0.2\n");
  EXPECT_EQ(shown(true), "epoch 2/5\n\x1b[33mwarning:\x1b[0m slow 0.2\n");
}

TEST(RunLog, TheFileGetsTimeStampsAndIsAppendedTo) {
  const TemporaryFolder folder;
  const auto path = folder / "run/out.log";
  const std::string stamp = "\\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\\.[0-9]{3}\\] ";
  RunLog first({.console = nullptr, .colour = false, .file = path});
  say_everything(first);
  // Read while the log is open: lines must not wait in a buffer for the end of the run.
  const std::string three = stamp + "\\[debug\\] detail 1\n" + stamp + "\\[info\\] epoch 2/5\n" +
                            stamp + "\\[warning\\] slow 0.2\n";
  EXPECT_THAT(read_text_file(path), MatchesRegex(three));
  RunLog second({.console = nullptr, .colour = false, .file = path});
  second.debug("more");
  second.info("again");
  EXPECT_THAT(read_text_file(path),
              MatchesRegex(three + stamp + "\\[debug\\] more\n" + stamp + "\\[info\\] again\n"));
}

TEST(RunLog, ThatIsNoFileIsRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const auto& path : {folder / "pipe", std::filesystem::path("/dev/null"), folder.path()}) {
    const auto message = message_of<InputError>(
        [&] { RunLog log({.console = nullptr, .colour = false, .file = path}); });
    EXPECT_TRUE(says(message, {"log: " + path.string() + " is not a file"}));
  }
}

TEST(RunLog, LostLinesAreToldOnce) {
  const TemporaryFolder folder;
  const auto result = run_in_fork([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit few_bytes{.rlim_cur = 10, .rlim_max = 10};
    if (::setrlimit(RLIMIT_FSIZE, &few_bytes) != 0) return 1;
    std::ostringstream console;
    RunLog log({.console = &console, .colour = false, .file = folder / "out.log"});
    log.info("one");
    log.info("two");
    const auto told = "warning: lines can't be written to " + (folder / "out.log").string();
    const auto text = console.str();
    const auto first = text.find(told);
    return first != text.npos && text.find(told, first + 1) == text.npos ? 0 : 2;
  });
  expect_end(result, 0);
}

TEST(RunLog, TextThatLooksLikeAFormatStaysAsItIs) {
  std::ostringstream console;
  RunLog log({.console = &console, .colour = false, .file = {}});
  log.info("{}", "{} %s {:q}");
  EXPECT_EQ(console.str(), "{} %s {:q}\n");
}

TEST(RunLog, AFileThatCannotBeOpenedIsNamed) {
  const TemporaryFolder folder;
  const auto message = message_of<Error>(
      [&] { RunLog log({.console = nullptr, .colour = false, .file = folder.path()}); });
  EXPECT_TRUE(says(message, {folder.path().string()}));
}

TEST(RunLog, GoesThroughAProgressBarAndBack) {
  std::ostringstream terminal;
  RunLog log({.console = &terminal, .colour = false, .file = {}});
  {
    ProgressBar bar(terminal, {.terminal = true, .width = 40, .unicode = false},
                    [] { return 0.0; });
    log.route_console_through([&](std::string_view line) { bar.print_above(line); });
    bar.start("epoch 1/1", 4);
    log.warn("careful");
    EXPECT_TRUE(says(terminal.str(), {"\r\x1b[Kwarning: careful\n\repoch 1/1"}));
    bar.clear();
    log.route_console_through({});
  }
  terminal.str("");
  log.info("done");
  EXPECT_EQ(terminal.str(), "done\n");
}

TEST(RunLog, LinesOfManyThreadsStayWhole) {
  std::ostringstream terminal;
  RunLog log({.console = &terminal, .colour = false, .file = {}});
  ProgressBar bar(terminal, {.terminal = false}, [] { return 0.0; });
  log.route_console_through([&](std::string_view line) { bar.print_above(line); });
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) log.info("a line of one thread");
    });
  }
  threads.clear();
  std::istringstream lines(terminal.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(line, "a line of one thread");
  EXPECT_EQ(count, 800);
}

}  // namespace
}  // namespace kolo::testing
