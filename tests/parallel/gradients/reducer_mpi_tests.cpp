// The cases of the reducer and the distributed optimizer under mpirun.
#include <gmock/gmock.h>

#include "kolo/comm/mpi.h"
#include "parallel/gradients/reducer_cases.h"

namespace kolo {
namespace {

using testing::RankCase;

class ReducerMpi : public ::testing::TestWithParam<RankCase> {};

TEST_P(ReducerMpi, Conformance) {
  GetParam().run(mpi_communicator());
}

// The transports between nodes as well.
class JoinedMpi : public ReducerMpi {};

TEST_P(JoinedMpi, OnOneNode) {
  GetParam().run(mpi_communicator());
}
TEST_P(JoinedMpi, WithoutSharedMemory) {
  GetParam().run(mpi_communicator({.shared_memory = SharedMemory::off}));
}
TEST_P(JoinedMpi, OnTwoNodes) {
  const auto ranks = mpi_communicator().size();
  if (ranks == 1) return;
  MpiOptions options;
  options.ranks_on_nodes = {ranks - 1, 1};
  GetParam().run(mpi_communicator(options));
}

// All but the last rank on one node, the last on another: gradients in shared memory and over MPI.
TEST_P(ReducerMpi, ConformanceOverNodes) {
  const int ranks = mpi_communicator().size();
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

INSTANTIATE_TEST_SUITE_P(Options, ReducerMpi, all_of(testing::reducer_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Order, ReducerMpi, all_of(testing::reducer_order_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Passes, ReducerMpi, all_of(testing::passes_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Tied, ReducerMpi, all_of(testing::tied_weight_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Unused, ReducerMpi, all_of(testing::unused_parameter_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(OwnOrder, ReducerMpi, all_of(testing::own_order_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Claimed, ReducerMpi, all_of(testing::claimed_gradient_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Optimizer, ReducerMpi, all_of(testing::distributed_optimizer_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(All, JoinedMpi, all_of(testing::joined_rank_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(TorchOptimizer, ReducerMpi, all_of(testing::torch_optimizer_cases()),
                         name_of_case);

}  // namespace
}  // namespace kolo
