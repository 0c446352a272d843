// Collectives on tensors, broadcasts of state and what is built on them, under mpirun.
#include <gmock/gmock.h>

#include "kolo/comm/mpi.h"
#include "parallel/tensors/combined_cases.h"
#include "parallel/tensors/differentiable_cases.h"
#include "parallel/tensors/state_cases.h"
#include "parallel/tensors/sync_batch_norm_cases.h"
#include "parallel/tensors/tensor_cases.h"

namespace kolo {
namespace {

using testing::RankCase;

class CollectivesMpi : public ::testing::TestWithParam<RankCase> {};

TEST_P(CollectivesMpi, Conformance) {
  GetParam().run(mpi_communicator());
}

const auto name_of_case = [](const auto& test) { return test.param.name; };

auto all_of(std::span<const RankCase> cases) {
  return ::testing::ValuesIn(cases.begin(), cases.end());
}

INSTANTIATE_TEST_SUITE_P(Tensors, CollectivesMpi, all_of(testing::tensor_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Combined, CollectivesMpi, all_of(testing::combined_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Differentiable, CollectivesMpi, all_of(testing::differentiable_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(State, CollectivesMpi, all_of(testing::state_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(SyncBatchNorm, CollectivesMpi, all_of(testing::sync_batch_norm_cases()),
                         name_of_case);

}  // namespace
}  // namespace kolo
