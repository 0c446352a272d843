// The cases of parallel/ under mpirun.
#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/comm/mpi.h"
#include "parallel/gradients/parallel_cases.h"

namespace kolo {
namespace {

using testing::RankCase;

class ParallelMpi : public ::testing::TestWithParam<RankCase> {};

TEST_P(ParallelMpi, Conformance) {
  GetParam().run(mpi_communicator());
}
TEST_P(ParallelMpi, ConformanceWithoutSharedMemory) {
  GetParam().run(mpi_communicator({.shared_memory = SharedMemory::off}));
}

INSTANTIATE_TEST_SUITE_P(All, ParallelMpi,
                         ::testing::ValuesIn(testing::parallel_cases().begin(),
                                             testing::parallel_cases().end()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace kolo
