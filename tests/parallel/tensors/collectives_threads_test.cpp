// Collectives on tensors, broadcasts of state and what is built on them, over ranks that are
// threads.
#include <tuple>

#include <gmock/gmock.h>

#include "kolo/comm/threads.h"
#include "parallel/tensors/combined_cases.h"
#include "parallel/tensors/differentiable_cases.h"
#include "parallel/tensors/state_cases.h"
#include "parallel/tensors/sync_batch_norm_cases.h"
#include "parallel/tensors/tensor_cases.h"

namespace kolo {
namespace {

using testing::RankCase;

class CollectivesThreads : public ::testing::TestWithParam<std::tuple<RankCase, int>> {};

TEST_P(CollectivesThreads, Conformance) {
  const auto& [rank_case, ranks] = GetParam();
  run_as_threads(ranks, rank_case.run);
}

const auto name_of_case = [](const auto& test) {
  return std::get<0>(test.param).name + "_" + std::to_string(std::get<1>(test.param));
};

auto on_one_to_four_ranks(std::span<const RankCase> cases) {
  return ::testing::Combine(::testing::ValuesIn(cases.begin(), cases.end()),
                            ::testing::Range(1, 5));
}

INSTANTIATE_TEST_SUITE_P(Tensors, CollectivesThreads, on_one_to_four_ranks(testing::tensor_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Combined, CollectivesThreads,
                         on_one_to_four_ranks(testing::combined_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Differentiable, CollectivesThreads,
                         on_one_to_four_ranks(testing::differentiable_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(State, CollectivesThreads, on_one_to_four_ranks(testing::state_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(SyncBatchNorm, CollectivesThreads,
                         on_one_to_four_ranks(testing::sync_batch_norm_cases()), name_of_case);

}  // namespace
}  // namespace kolo
