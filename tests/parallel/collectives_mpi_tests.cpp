// Collectives on tensors, broadcasts of state and what is built on them, under mpirun.
#include <gmock/gmock.h>

#include "kolo/comm/mpi.h"
#include "parallel/tensor_cases.h"

namespace kolo {
namespace {

using testing::RankCase;

class CollectivesMpi : public ::testing::TestWithParam<RankCase> {};

TEST_P(CollectivesMpi, Conformance) {
  GetParam().run(mpi_communicator());
}

const auto name_of_case = [](const auto& test) { return test.param.name; };

INSTANTIATE_TEST_SUITE_P(Tensors, CollectivesMpi,
                         ::testing::ValuesIn(testing::tensor_cases().begin(),
                                             testing::tensor_cases().end()),
                         name_of_case);

}  // namespace
}  // namespace kolo
