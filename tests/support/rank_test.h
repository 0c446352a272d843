#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/comm/mpi.h"
#include "kolo/comm/threads.h"

// RANK_TEST(Suite, Name) { ... communicator ... }: a test that all ranks run together, over
// whatever back end `communicator` has. It asserts with GoogleTest's EXPECT_. One test runs it in
// one process with every setting of its program, one after another: numbers of ranks as threads,
// with --processes=RANKS ranks as processes and, under mpirun with --mpi, ways to use MPI.
#define RANK_TEST(suite, name)                                                           \
  static void suite##_##name(const ::kolo::Communicator& communicator);                  \
  [[maybe_unused]] static const bool suite##_##name##_is_known =                         \
      ::kolo::testing::add_rank_test(#suite, #name, __FILE__, __LINE__, suite##_##name); \
  static void suite##_##name([[maybe_unused]] const ::kolo::Communicator& communicator)

namespace kolo::testing {

using RankTestBody = void (*)(const Communicator&);

// Called by RANK_TEST before main().
bool add_rank_test(const char* suite, const char* name, const char* file, int line,
                   RankTestBody body);

// Way to run rank tests: makes the communicator of each rank and calls the body with it.
struct RankSetting {
  std::string name;  // printed where a test fails
  std::function<void(const std::function<void(const Communicator&)>& body)> run;
};

// One process without other ranks.
[[nodiscard]] RankSetting alone();

// Ranks that are threads.
[[nodiscard]] RankSetting on_threads(int ranks, const std::string& name = "",
                                     const ThreadRanksOptions& options = {});

// All ranks of the MPI job. Keeps one communicator per name until the program's end, because making
// one is slow.
[[nodiscard]] RankSetting on_mpi(const std::string& name, const MpiOptions& options = {});

// The same for the processes of --processes.
[[nodiscard]] RankSetting on_processes(const std::string& name, const MpiOptions& options = {});

// The same with checked communicators (Communicator::checked()).
[[nodiscard]] RankSetting checked(const RankSetting& plain);

// Defined by each program with rank tests: the settings for tests of one suite, as threads, as
// processes, and on the `ranks` ranks of an MPI job.
[[nodiscard]] std::vector<RankSetting> thread_settings(std::string_view suite);
[[nodiscard]] std::vector<RankSetting> process_settings(std::string_view suite);
[[nodiscard]] std::vector<RankSetting> mpi_settings(std::string_view suite, int ranks);

}  // namespace kolo::testing
