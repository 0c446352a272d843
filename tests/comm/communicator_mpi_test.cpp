// Communicators over MPI alone: thread levels, environment.
#include <cstdlib>
#include <vector>

#include <gmock/gmock.h>
#include "comm/mpi/mpi_calls.h"

#include "kolo/comm/mpi.h"

namespace kolo {
namespace {

int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

TEST(MpiLargeCounts, MoreThanTwoToThe31Bytes) {
  if (world_size() != 2) return;
  constexpr std::size_t count = (std::size_t{1} << 31) + 4099;
  std::vector<std::uint8_t> values(count, static_cast<std::uint8_t>(1 + world_rank()));
  values.back() = 100;
  mpi_communicator().all_reduce(std::span(values));
  EXPECT_EQ(values.front(), 3);
  EXPECT_EQ(values[count / 2], 3);
  EXPECT_EQ(values.back(), 200);
  mpi_communicator({.shared_memory = SharedMemory::off}).broadcast(std::span(values), 1);
  EXPECT_EQ(values[count - 2], 3);
  EXPECT_EQ(values.back(), 200);
}

TEST(MpiThreadLevel, WithoutThreadsEverythingStillWorks) {
  // The program's own MPI may grant less than was asked: then asynchronous collectives are done
  // when their call returns.
  const auto communicator = mpi_communicator();
  const auto capabilities = communicator.capabilities();
  int provided = 0;
  MPI_Query_thread(&provided);
  // No two threads may be in MPI with less than `multiple`, and this program may call it too. Ranks
  // that meet in shared memory, and one alone, don't need it.
  const bool needs_mpi = !capabilities.shared_memory && communicator.size() > 1;
  EXPECT_EQ(capabilities.asynchronous, provided == MPI_THREAD_MULTIPLE || !needs_mpi);
  EXPECT_EQ(capabilities.concurrent, capabilities.asynchronous);
  float value = 1;
  const Work work = communicator.all_reduce_async(std::span(&value, 1));
  EXPECT_TRUE(capabilities.asynchronous || work.is_done());
  work.wait();
  EXPECT_EQ(value, static_cast<float>(communicator.size()));
}

// Sets a variable of this rank's environment as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(MpiEnvironment, ThatOfRank0Counts) {
  for (const int different : {0, world_size() - 1}) {
    const bool is_mine = world_rank() == different;
    const Variable checked("KOLO_CHECKED", is_mine ? "1" : "0");
    const Variable watch("KOLO_WATCH", is_mine ? "off" : "on");
    const auto communicator = mpi_communicator();
    EXPECT_EQ(communicator.is_checked(), different == 0);
    EXPECT_EQ(all_reduce_value(communicator, 1), communicator.size());
  }
}

}  // namespace
}  // namespace kolo
