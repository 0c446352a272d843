// main() of programs with rank tests: PROGRAM [--mpi|--mpi=funneled|--mpi=serialized] [--gtest_...]
// [SOURCE]. Without --mpi the rank tests run with ranks as threads, beside all other tests but
// those in *_mpi_test.cpp. With it the program is under mpirun: every rank runs every rank test and
// those in *_mpi_test.cpp, and the job fails when one rank does. With SOURCE only the tests in it
// run.
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "comm/mpi/mpi_calls.h"
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

// They add themselves before main().
std::vector<RankTest>& rank_tests() {
  static std::vector<RankTest> tests;
  return tests;
}

// Those of on_mpi(), until main() lets go of them.
std::map<std::string, Communicator>& mpi_communicators() {
  static std::map<std::string, Communicator> made;
  return made;
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

int run_under_mpi(const std::string& level, const std::string& source) {
  if (level != "" && level != "funneled" && level != "serialized") {
    std::fprintf(stderr, "--mpi=%s: expected funneled or serialized\n", level.c_str());
    return 2;
  }
  const int wanted = level == "funneled"     ? MPI_THREAD_FUNNELED
                     : level == "serialized" ? MPI_THREAD_SERIALIZED
                                             : MPI_THREAD_MULTIPLE;
  int provided = 0, rank = 0, ranks = 0;
  MPI_Init_thread(nullptr, nullptr, wanted, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  register_rank_tests([&](std::string_view suite) { return mpi_settings(suite, ranks); });
  const auto is_wanted = [&](const ::testing::TestInfo& test) {
    return (source.empty() || is_in(test, source)) &&
           (is_rank_test(test) || std::string_view(test.file()).ends_with("_mpi_test.cpp"));
  };
  int failed = select_tests(is_wanted) ? 0 : 2;
  if (rank != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  if (failed == 0) failed = RUN_ALL_TESTS();
  if (failed != 0) std::fprintf(stderr, "rank %d failed\n", rank);
  mpi_communicators().clear();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
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
  return {"under mpirun " + name, [=](const auto& body) {
            auto& made = mpi_communicators();
            if (!made.contains(name)) made.emplace(name, mpi_communicator(options));
            body(made.at(name));
          }};
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
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--mpi"))
      level = argument.substr(std::min<std::size_t>(argument.size(), 6));
    else
      source = argument;
  }
  return level ? kolo::testing::run_under_mpi(*level, source)
               : kolo::testing::run_with_threads(source);
}
