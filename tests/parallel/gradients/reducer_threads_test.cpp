#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/comm/threads.h"
#include "parallel/gradients/reducer_cases.h"

namespace kolo {
namespace {

using testing::RankCase;

class ReducerThreads : public ::testing::TestWithParam<std::tuple<RankCase, int>> {};

TEST_P(ReducerThreads, Conformance) {
  const auto& [rank_case, ranks] = GetParam();
  run_as_threads(ranks, rank_case.run);
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<RankCase, int>>& test) {
  return fmt::format("{}_{}", std::get<0>(test.param).name, std::get<1>(test.param));
}

auto on_one_to_four_ranks(std::span<const RankCase> cases) {
  return ::testing::Combine(::testing::ValuesIn(cases.begin(), cases.end()),
                            ::testing::Range(1, 5));
}

INSTANTIATE_TEST_SUITE_P(Options, ReducerThreads, on_one_to_four_ranks(testing::reducer_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Order, ReducerThreads,
                         on_one_to_four_ranks(testing::reducer_order_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Passes, ReducerThreads, on_one_to_four_ranks(testing::passes_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Tied, ReducerThreads, on_one_to_four_ranks(testing::tied_weight_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Unused, ReducerThreads,
                         on_one_to_four_ranks(testing::unused_parameter_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(OwnOrder, ReducerThreads, on_one_to_four_ranks(testing::own_order_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Claimed, ReducerThreads,
                         on_one_to_four_ranks(testing::claimed_gradient_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Optimizer, ReducerThreads,
                         on_one_to_four_ranks(testing::distributed_optimizer_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Joined, ReducerThreads,
                         on_one_to_four_ranks(testing::joined_rank_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(TorchOptimizer, ReducerThreads,
                         on_one_to_four_ranks(testing::torch_optimizer_cases()), name_of_case);

}  // namespace
}  // namespace kolo
