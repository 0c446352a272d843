// main() of programs with rank tests:
// PROGRAM [--processes=RANKS|--mpi|--mpi=funneled|--mpi=serialized] [--gtest_...] [SOURCE].
// Without the first the rank tests run with ranks as threads, beside all other tests but those in
// *_mpi_test.cpp. With --processes the program forks so many, which all run every rank test. With
// --mpi the program is under mpirun: every rank runs every rank test and those in *_mpi_test.cpp.
// The job fails when one rank does. With SOURCE only the tests in it run.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/processes/process_region.h"
#include "kolo/comm/processes.h"
#include "support/mpi_world.h"
#include "support/rank_test.h"
#include "support/run_tests.h"

namespace kolo::testing {

namespace {

struct RankTest {
  const char* suite;
  const char* name;
  const char* file;
  int line;
  RankTestBody body;
};

// Rank tests, which add themselves before main().
std::vector<RankTest>& rank_tests() {
  static std::vector<RankTest> tests;
  return tests;
}

// Communicators of on_mpi() and on_processes(), kept until the end of main().
std::map<std::string, Communicator>& job_communicators() {
  static std::map<std::string, Communicator> made;
  return made;
}

RankSetting on_job(const std::string& words, const std::string& name, const MpiOptions& options) {
  return {words + " " + name, [=](const auto& body) {
            auto& made = job_communicators();
            if (!made.contains(name)) made.emplace(name, job_communicator(options));
            body(made.at(name));
          }};
}

class RankTestInSettings : public ::testing::Test {
 public:
  RankTestInSettings(RankTestBody body, std::vector<RankSetting> settings)
      : body_(body), settings_(std::move(settings)) {}

  void TestBody() override {
    ASSERT_FALSE(settings_.empty()) << "this program has no setting for the suite";
    for (const RankSetting& setting : settings_) {
      try {
        setting.run(body_);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "it threw: " << error.what();
      }
      if (HasFailure()) {
        ADD_FAILURE() << "... " << setting.name;
        return;
      }
    }
  }

 private:
  RankTestBody body_;
  std::vector<RankSetting> settings_;
};

using SettingsOfSuite = std::function<std::vector<RankSetting>(std::string_view)>;

void register_rank_tests(const SettingsOfSuite& settings_of) {
  for (const RankTest& test : rank_tests()) {
    ::testing::RegisterTest(
        test.suite, test.name, nullptr, nullptr, test.file, test.line,
        [body = test.body, settings = settings_of(test.suite)]() -> ::testing::Test* {
          return std::make_unique<RankTestInSettings>(body, settings).release();
        });
  }
}

bool is_rank_test(const ::testing::TestInfo& test) {
  for (const RankTest& known : rank_tests()) {
    if (std::string_view(known.file) == test.file() && known.line == test.line()) return true;
  }
  return false;
}

// Runs the tests of a rank. Each rank reports its failures, and rank 0 all else.
int run_as_rank(int rank, const std::function<bool(const ::testing::TestInfo&)>& is_wanted) {
  int failed = select_tests(is_wanted) ? 0 : 2;
  if (rank != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  if (failed == 0) failed = RUN_ALL_TESTS();
  if (failed != 0) std::fprintf(stderr, "rank %d failed\n", rank);
  job_communicators().clear();
  return failed;
}

int run_as_process(const ProcessRegion& region, int rank, const std::string& source) {
  for (const auto& [name, value] : region.environment(rank))
    ::setenv(name.c_str(), value.c_str(), 1);
  register_rank_tests(process_settings);
  return run_as_rank(rank, [&](const ::testing::TestInfo& test) {
    return (source.empty() || is_in(test, source)) && is_rank_test(test);
  });
}

// Runs ranks as forks. The first that fails ends the others, which may wait for it.
int run_on_processes(int ranks, const std::string& source) {
  const ProcessRegion region(ranks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::exit(run_as_process(region, rank, source));
    }
    children.push_back(child);
  }
  int failed = 0;
  for (int ended = 0; ended < ranks; ++ended) {
    int status = 0;
    if (::waitpid(-1, &status, 0) < 0) return 2;
    if (status == 0 || failed != 0) continue;
    failed = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    for (const pid_t child : children) ::kill(child, SIGKILL);
  }
  return failed;
}

int run_under_mpi(const std::string& level, const std::string& source) {
  const auto world = begin_mpi(level);
  if (!world) return 2;
  register_rank_tests([&](std::string_view suite) { return mpi_settings(suite, world->ranks); });
  const auto is_wanted = [&](const ::testing::TestInfo& test) {
    return (source.empty() || is_in(test, source)) &&
           (is_rank_test(test) || std::string_view(test.file()).ends_with("_mpi_test.cpp"));
  };
  return end_mpi(run_as_rank(world->rank, is_wanted));
}

int run_with_threads(const std::string& source) {
  register_rank_tests(thread_settings);
  const auto is_wanted = [&](const ::testing::TestInfo& test) {
    return (source.empty() || is_in(test, source)) &&
           !std::string_view(test.file()).ends_with("_mpi_test.cpp");
  };
  return select_tests(is_wanted) ? RUN_ALL_TESTS() : 2;
}

}  // namespace

bool add_rank_test(const char* suite, const char* name, const char* file, int line,
                   RankTestBody body) {
  rank_tests().push_back({suite, name, file, line, body});
  return true;
}

RankSetting alone() {
  return {"alone", [](const auto& body) { body(Communicator::solo()); }};
}

RankSetting on_threads(int ranks, const std::string& name, const ThreadRanksOptions& options) {
  return {"on " + std::to_string(ranks) + " ranks as threads " + name,
          [=](const auto& body) { run_as_threads(ranks, body, options); }};
}

RankSetting on_mpi(const std::string& name, const MpiOptions& options) {
  return on_job("under mpirun", name, options);
}

RankSetting on_processes(const std::string& name, const MpiOptions& options) {
  return on_job("as processes", name, options);
}

RankSetting checked(const RankSetting& plain) {
  return {plain.name + ", checked", [run = plain.run](const auto& body) {
            run([&](const Communicator& communicator) { body(communicator.checked()); });
          }};
}

}  // namespace kolo::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  std::string source;
  std::optional<std::string> level;
  int processes = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--mpi"))
      level = argument.substr(std::min<std::size_t>(argument.size(), 6));
    else if (argument.starts_with("--processes="))
      processes = std::stoi(argument.substr(argument.find('=') + 1));
    else
      source = argument;
  }
  if (processes > 0) return kolo::testing::run_on_processes(processes, source);
  return level ? kolo::testing::run_under_mpi(*level, source)
               : kolo::testing::run_with_threads(source);
}
