// The cases of training over several ranks under mpirun.
#include <gmock/gmock.h>

#include "kolo/comm/mpi.h"
#include "parallel/training_cases.h"

namespace kolo {
namespace {

using testing::RankCase;

class TrainingMpi : public ::testing::TestWithParam<RankCase> {};

TEST_P(TrainingMpi, Conformance) {
  GetParam().run(mpi_communicator());
}
TEST_P(TrainingMpi, ConformanceWithoutSharedMemory) {
  GetParam().run(mpi_communicator({.shared_memory = SharedMemory::off}));
}

TEST_P(TrainingMpi, ConformanceOnTwoNodes) {
  const auto ranks = mpi_communicator().size();
  if (ranks == 1) return;
  MpiOptions options;
  options.ranks_on_nodes = {ranks - 1, 1};
  GetParam().run(mpi_communicator(options));
}

std::string name_of_case(const ::testing::TestParamInfo<RankCase>& test) {
  return test.param.name;
}

auto all_of(std::span<const RankCase> cases) {
  return ::testing::ValuesIn(cases.begin(), cases.end());
}

INSTANTIATE_TEST_SUITE_P(PowerSgd, TrainingMpi, all_of(testing::power_sgd_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(ArenaOptimizer, TrainingMpi, all_of(testing::arena_optimizer_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(LeftOut, TrainingMpi, all_of(testing::left_out_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(ShardedOptimizer, TrainingMpi, all_of(testing::sharded_optimizer_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(SharedStep, TrainingMpi, all_of(testing::shared_step_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(ReplicaCheck, TrainingMpi, all_of(testing::replica_check_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(FiniteCheck, TrainingMpi, all_of(testing::finite_check_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(TrainingStep, TrainingMpi, all_of(testing::training_step_cases()),
                         name_of_case);

}  // namespace
}  // namespace kolo
