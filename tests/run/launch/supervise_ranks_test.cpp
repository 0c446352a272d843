// run_ranks() with processes of this machine: messages on their ends, signals, and nothing left
// behind. Ranks are forks of this program, like kolo train's, or shells, like programs of kolo run.
// They wait for each other by files, and signal their parent.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "kolo/base/machine.h"
#include "kolo/comm/device.h"
#include "kolo/comm/processes.h"
#include "kolo/run/launch_ranks.h"
#include "support/expect_end.h"
#include "support/matchers.h"
#include "support/process.h"
#include "support/read_all.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

std::atomic<bool> was_asked{false};

void ask(int) {
  was_asked = true;
}

void rest() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

[[noreturn]] void wait_for_ever() {
  while (true) ::pause();
}

void wait_until_asked() {
  while (!was_asked) rest();
}

void wait_for_state(pid_t process, char state) {
  const auto words = fmt::format("\nState:\t{}", state);
  while (!says(read_all(fmt::format("/proc/{}/status", process)), {words})) rest();
}

class SupervisedRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    // Ranks are no forks either where OpenMP binds its threads.
    for (const char* const name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
      ::unsetenv(name);
  }

  // Work of a rank, by its number.
  using Body = std::function<int(int rank)>;

  [[nodiscard]] ProcessResult run(int ranks, const Body& body,
                                  const RestartPolicy& policy = {}) const {
    return run({.ranks = ranks,
                .main =
                    [&](const std::vector<std::string>&) {
                      return body(std::atoi(std::getenv("KOLO_PROCESS_RANK")));
                    }},
               policy);
  }

  // Runs a script, in which $rank is the number, and all_ready waits for all ranks.
  [[nodiscard]] ProcessResult run_script(int ranks, const std::string& script,
                                         const RestartPolicy& policy = {}) const {
    const std::string begin =
        "rank=$KOLO_PROCESS_RANK; cd \"$0\"; all_ready() { : >ready-$rank; "
        "until [ $(ls -d ready-* | wc -l) -ge $KOLO_PROCESS_RANKS ]; do sleep 0.02; done; }; ";
    return run({.ranks = ranks, .command = {"sh", "-c", begin + script, folder.path().string()}},
               policy);
  }

  // Waits until all ranks have come here, each with its process in a file.
  void meet(int rank, int ranks) const {
    const auto file = [&](int number) { return folder / fmt::format("process-{}", number); };
    const auto made = folder / fmt::format("making-{}", rank);
    std::ofstream(made) << ::getpid();
    std::filesystem::rename(made, file(rank));
    for (int other = 0; other < ranks; ++other)
      while (!std::filesystem::exists(file(other))) rest();
  }

  [[nodiscard]] pid_t process_of(int rank) const {
    return std::atoi(read_all(folder / fmt::format("process-{}", rank)).c_str());
  }

  TemporaryFolder folder;

 private:
  [[nodiscard]] static ProcessResult run(LaunchRequest request, const RestartPolicy& policy) {
    request.oversubscribe = true;
    request.launcher = LauncherChoice::processes;
    return run_in_fork([&] { return run_ranks(request, policy); });
  }
};

// Ranks that are forks of this program.
class ForkedRanks : public SupervisedRanks {
 protected:
  void SetUp() override {
    if (cuda_runtime())
      GTEST_SKIP() << "kolo built with CUDA doesn't fork ranks, as CUDA can't be used in forks; it "
                      "starts programs, as the other tests here do";
    SupervisedRanks::SetUp();
  }
};

TEST_F(ForkedRanks, AKilledOneIsNamedAndTheOthersAreEnded) {
  const auto told =
      ContainsRegex("kolo: rank 1 \\(process [0-9]+\\) was killed by SIGKILL; the job ends");
  const auto forked = run(3, [&](int rank) {
    meet(rank, 3);
    if (rank == 1) std::raise(SIGKILL);
    wait_for_ever();
    return 0;
  });
  expect_end(forked, 128 + SIGKILL);
  EXPECT_THAT(forked.errors, told);
  const auto started = run_script(3, "all_ready; [ $rank = 1 ] && kill -9 $$; exec sleep 1000");
  expect_end(started, 128 + SIGKILL);
  EXPECT_THAT(started.errors, told);
}

// A rank fails by a signal, or with a status that tells of a signal to its program (kolo run), or,
// by its watch, to another rank.
TEST_F(SupervisedRanks, HowOneHasFailedIsToldUnlessItHasSaidWhy) {
  struct Case {
    std::string script;
    int status;
    std::string told;
  };
  const std::string of_signal = R"(^kolo: rank 1 \(process [0-9]+\) was ended by SIGSEGV )"
                                R"(\(Segmentation fault\); the job ends)";
  const std::string gone = "kolo: watch: rank 0 is gone; the job ends";
  for (const auto& [script, status, told] :
       {Case{"kill -SEGV $$", 128 + SIGSEGV, of_signal}, Case{"exit 139", 139, of_signal},
        Case{"echo '" + gone + "' >&2; exit 137", 137, "^" + gone + "\n$"},
        Case{"echo 'this is why' >&2; exit 3", 3, "^this is why\n$"},
        Case{"exit 3", 3,
             "^kolo: rank 1 \\(process [0-9]+\\) has ended with status 3 without a word; the job "
             "ends\n$"}}) {
    const auto result = run_script(2, "[ $rank = 1 ] && { " + script + "; }; exec sleep 1000");
    expect_end(result, status);
    EXPECT_THAT(result.errors, ContainsRegex(told));
  }
}

// Other ranks may have ended because of it when the parent looks.
TEST_F(ForkedRanks, WhoeverWasKilledIsToldBeforeWhoeverSawIt) {
  const auto result = run(3, [&](int rank) {
    meet(rank, 3);
    if (rank == 2) wait_for_ever();
    if (rank == 0) {
      const pid_t parent = ::getppid();
      if (::fork() == 0) {  // lets the parent look when all have ended
        for (int each = 0; each < 3; ++each) wait_for_state(process_of(each), 'Z');
        ::kill(parent, SIGCONT);
        ::_exit(0);
      }
      ::kill(parent, SIGSTOP);
      wait_for_state(parent, 'T');
      ::kill(process_of(2), SIGKILL);
      wait_for_state(process_of(2), 'Z');
      std::ofstream(folder / "killed");
    }
    while (!std::filesystem::exists(folder / "killed")) rest();
    return 1;
  });
  expect_end(result, 128 + SIGKILL);
  EXPECT_THAT(result.errors, ContainsRegex("rank 2 \\(process [0-9]+\\) was killed by SIGKILL"));
}

// The other ranks aren't killed, and end by themselves.
TEST_F(ForkedRanks, OnesThatStopOrRefuseEndByAndBy) {
  for (const int status : {exit_stopped, exit_wrong_input}) {
    const TemporaryFolder signs;
    const auto result = run(2, [&](int rank) {
      if (rank == 1) {
        std::fprintf(stderr, "no\n");
        std::ofstream(signs / "process") << ::getpid() << "\n";
        return status;
      }
      while (!read_all(signs / "process").ends_with('\n')) rest();
      const pid_t other = std::stoi(read_all(signs / "process"));
      while (::kill(other, 0) == 0) rest();  // until its end has been seen
      std::ofstream(signs / "saved");
      return 0;
    });
    expect_end(result, status);
    EXPECT_EQ(result.errors, "no\n");
    EXPECT_TRUE(std::filesystem::exists(signs / "saved"));
  }
}

TEST_F(ForkedRanks, AFailureCountsMoreThanAStopBeforeIt) {
  const auto result = run(2, [&](int rank) {
    meet(rank, 2);
    if (rank == 1) return exit_stopped;
    while (::kill(process_of(1), 0) == 0) rest();  // until its end has been seen
    std::fprintf(stderr, "kolo: the checkpoint could not be written\n");
    return exit_failed;
  });
  expect_end(result, exit_failed);
}

TEST_F(SupervisedRanks, AProgramThatIsNotThereIsTold) {
  const auto result = run_in_fork([] {
    return run_ranks({.ranks = 2,
                      .oversubscribe = true,
                      .command = {"/nowhere/program"},
                      .launcher = LauncherChoice::processes});
  });
  expect_end(result, 127);
  EXPECT_TRUE(
      says(result.errors, {"kolo: cannot start /nowhere/program: No such file or directory"}));
}

TEST_F(ForkedRanks, ARequestToStopReachesAll) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const TemporaryFolder signs;
    const auto result = run(3,
                            [&](int rank) {
                              std::signal(SIGUSR1, ask);
                              meet(rank, 3);
                              if (rank == 0) ::kill(::getppid(), signal);
                              wait_until_asked();
                              std::ofstream(signs / std::to_string(rank));
                              return exit_stopped;
                            },
                            {.stop = {.message = "the ranks stop"}});
    expect_end(result, exit_stopped);
    EXPECT_TRUE(says(result.errors, {": the ranks stop\n"}));
    for (const char* const rank : {"0", "1", "2"})
      EXPECT_TRUE(std::filesystem::exists(signs / rank));
    for (int rank = 0; rank < 3; ++rank)
      std::filesystem::remove(folder / fmt::format("process-{}", rank));
  }
}

TEST_F(ForkedRanks, ARequestIsRepeatedUntilItIsHeard) {
  const auto result = run(2, [&](int rank) {
    meet(rank, 2);
    if (rank == 0) ::kill(::getppid(), SIGTERM);
    while (rank == 1 && !std::filesystem::exists(folder / "heard")) rest();
    std::signal(SIGUSR1, ask);
    wait_until_asked();
    std::ofstream(folder / "heard");
    return exit_stopped;
  });
  expect_end(result, exit_stopped);
}

TEST_F(SupervisedRanks, ProgramsGetTheSignalThatThePolicySays) {
  const std::string until_asked =
      "all_ready; [ $rank = 0 ] && kill -TERM $PPID; while :; do sleep 0.02; done";
  const auto translated =
      run_script(2, "trap 'exit 75' USR2; " + until_asked, {.stop = {.signal = SIGUSR2}});
  expect_end(translated, exit_stopped);
  std::filesystem::remove(folder / "ready-0");
  std::filesystem::remove(folder / "ready-1");
  const auto ended = run_script(2, "trap 'exit 7' TERM; " + until_asked,
                                {.stop = {.signal = SIGTERM, .message = "the ranks are ended"}});
  expect_end(ended, 128 + SIGTERM);
  EXPECT_EQ(ended.errors, "kolo: SIGTERM: the ranks are ended\n");
  std::filesystem::remove(folder / "ready-0");
  std::filesystem::remove(folder / "ready-1");
  const std::string until_told =
      "all_ready; [ $rank = 0 ] && kill -USR1 $PPID; while :; do sleep 0.02; done";
  const auto told = run_script(2, "trap 'exit 7' TERM; " + until_told,
                               {.stop = {.signal = SIGTERM, .message = "the ranks are ended"}});
  expect_end(told, 128 + SIGUSR1);
  EXPECT_EQ(told.errors, "kolo: SIGUSR1: the ranks are ended\n");
}

// It also ends a stopped rank, and one that ignores it.
TEST_F(ForkedRanks, ASecondRequestEndsThem) {
  const auto result = run(3, [&](int rank) {
    std::signal(SIGUSR1, ask);
    if (rank == 2) std::signal(SIGTERM, SIG_IGN);
    meet(rank, 3);
    if (rank == 1) std::raise(SIGSTOP);
    if (rank == 0) {
      wait_for_state(process_of(1), 'T');
      ::kill(::getppid(), SIGTERM);
      wait_until_asked();
      ::kill(::getppid(), SIGTERM);
    }
    wait_for_ever();
    return 0;
  });
  expect_end(result, 128 + SIGTERM);
}

TEST_F(ForkedRanks, NoneOutlivesWhoHasStartedThem) {
  const auto forked = run(3, [&](int rank) {
    std::signal(SIGTERM, SIG_IGN);
    meet(rank, 3);
    if (rank == 1) ::kill(::getppid(), SIGKILL);
    wait_for_ever();
    return 0;
  });
  expect_end(forked, 128 + SIGKILL);
  expect_end(run_script(3, "all_ready; [ $rank = 1 ] && kill -9 $PPID; exec sleep 1000"),
             128 + SIGKILL);
}

// A killed job leaves no name in /dev/shm.
TEST_F(ForkedRanks, TheirMemoryHasNoName) {
  const auto result = run(2, [&](int rank) {
    const auto communicator = process_communicator();
    const auto memory = communicator.allocate(100'000);
    std::vector<float> values(50'000, 1.0F);
    communicator.all_reduce(std::span(values), ReduceOp::sum);
    const auto maps = read_all("/proc/self/maps");
    std::ofstream(folder / fmt::format("maps-{}", rank)) << maps;
    communicator.barrier();
    if (rank == 1) std::raise(SIGKILL);
    wait_for_ever();
    return 0;
  });
  expect_end(result, 128 + SIGKILL);
  for (const char* const file : {"maps-0", "maps-1"})
    EXPECT_THAT(read_all(folder / file), AllOf(HasSubstr("memfd:"), Not(HasSubstr("/dev/shm"))));
}

TEST_F(SupervisedRanks, TheyAreStartedAgainAsThePolicySays) {
  const auto mended = run_script(
      2, "[ $rank$KOLO_RESTART = 00 ] && kill -9 $$; [ $KOLO_RESTART = 1 ] || exec sleep 1000",
      {.restarts = 2, .before_restart = [](LaunchRequest&) { return "going on at step 7"; }});
  expect_end(mended, 0);
  EXPECT_TRUE(says(mended.errors,
                   {"rank 0 (process ", "was killed by SIGKILL; the job ends",
                    "the job ended with status 137 (Killed); starting it again (restart 1 of 2): 2 "
                    "ranks, going on at step 7"}));
  const auto broken = run_script(
      2, "[ $rank = 0 ] && echo start >>starts; [ $rank = 1 ] && exit 3; exec sleep 1000",
      {.restarts = 2});
  expect_end(broken, 3);
  EXPECT_TRUE(says(broken.errors, {"it was restarted 2 times within an hour, and is not again"}));
}

TEST_F(ForkedRanks, WhatWasStoppedOrRefusedIsNotStartedAgain) {
  for (const int status : {exit_stopped, exit_wrong_input}) {
    const auto result = run(2,
                            [&](int rank) {
                              if (rank == 0)
                                std::ofstream(folder / "starts", std::ios::app) << "start\n";
                              std::fprintf(stderr, "no\n");
                              return status;
                            },
                            {.restarts = 3});
    expect_end(result, status);
    EXPECT_EQ(read_all(folder / "starts"), "start\n");
    std::filesystem::remove(folder / "starts");
  }
}

TEST_F(SupervisedRanks, EachKnowsItsNumber) {
  const auto result = run_script(
      3,
      "echo $KOLO_PROCESS_RANK of $KOLO_PROCESS_RANKS, $KOLO_LAUNCHED, $KOLO_RESTART >rank-$rank");
  expect_end(result, 0);
  EXPECT_EQ(result.errors, "");
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(read_all(folder / fmt::format("rank-{}", rank)),
              fmt::format("{} of 3, 1, 0\n", rank));
}

TEST_F(ForkedRanks, EachHasCoresOfItsOwnWhereThereAreAsMany) {
  const auto limits = detect_cpu_limits();
  const auto cores = allowed_cores();
  if (limits.cores() < 2 || std::ssize(cores) != limits.cores())
    GTEST_SKIP() << "this machine allows one core, or limits the time of its cores";
  const auto result = run(2, [&](int rank) {
    std::ofstream file(folder / fmt::format("rank-{}", rank));
    for (const int cpu : allowed_cpus()) file << cpu << "\n";
    return 0;
  });
  expect_end(result, 0);
  std::vector<std::string> all;
  for (const char* const name : {"rank-0", "rank-1"}) {
    std::ifstream file(folder / name);
    const std::size_t before = all.size();
    for (std::string cpu; file >> cpu;) all.push_back(cpu);
    EXPECT_GT(all.size(), before);
  }
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size()) << "no CPU is two ranks'";
}

TEST_F(ForkedRanks, ThatAreMoreThanCoresShareThem) {
  // Restricts this process to one core.
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  const auto cores = allowed_cores();
  for (const int cpu : cores.front()) CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  const auto cpus = allowed_cpus();
  const auto result = run(2, [&](int) { return allowed_cpus() == cpus ? 0 : 1; });
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
  expect_end(result, 0);
}

// Folder of the control group of this process that limits memory; KOLO_TEST_CGROUP names another,
// in which the user may make groups, as in /sys/fs/cgroup after systemd-run --user -p Delegate=yes.
std::filesystem::path memory_group() {
  if (const char* const delegated = std::getenv("KOLO_TEST_CGROUP")) return delegated;
  constexpr std::string_view of_version_1 = ":memory:", of_version_2 = "0::";
  std::filesystem::path group;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with(of_version_2))
      group = "/sys/fs/cgroup" + line.substr(of_version_2.size());
    else if (const auto at = line.find(of_version_1); at != std::string::npos)
      return "/sys/fs/cgroup/memory" + line.substr(at + of_version_1.size());
  }
  return group;
}

TEST_F(ForkedRanks, OneThatTheKernelHasKilledForMemoryIsToldSo) {
  const auto group = memory_group() / fmt::format("kolo-test-{}", ::getpid());
  std::error_code error;
  std::filesystem::create_directory(group, error);
  const bool is_1 = std::filesystem::exists(group / "memory.limit_in_bytes");
  if (error || (!is_1 && !std::filesystem::exists(group / "memory.max"))) {
    std::filesystem::remove(group, error);
    GTEST_SKIP() << "this user can't make control groups that limit memory below its own; root "
                    "often can, and KOLO_TEST_CGROUP names another group";
  }
  std::ofstream(group / (is_1 ? "memory.limit_in_bytes" : "memory.max")) << (64 << 20) << "\n";
  if (!is_1) std::ofstream(group / "memory.swap.max") << "0\n";
  const auto result = run_in_fork([&] {
    std::ofstream(group / "cgroup.procs") << ::getpid() << std::endl;
    return run_ranks({.ranks = 2,
                      .oversubscribe = true,
                      .launcher = LauncherChoice::processes,
                      .main = [](const std::vector<std::string>&) {
                        if (std::string(std::getenv("KOLO_PROCESS_RANK")) == "0") wait_for_ever();
                        std::vector<std::string> all;
                        while (true) all.emplace_back(std::size_t{1} << 20, 'x');
                        return 0;
                      }});
  });
  std::filesystem::remove(group, error);
  expect_end(result, 128 + SIGKILL);
  EXPECT_TRUE(says(result.errors, {"kolo: rank 1 (process ",
                                   ") was killed by SIGKILL (the kernel's out-of-memory killer, by "
                                   "the control group's count)"}));
}

}  // namespace
}  // namespace kolo::testing
