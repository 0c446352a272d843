#include <tuple>

#include <gmock/gmock.h>

#include "kolo/comm/threads.h"
#include "parallel/training_cases.h"

namespace kolo {
namespace {

using testing::RankCase;

class TrainingThreads : public ::testing::TestWithParam<std::tuple<RankCase, int>> {};

TEST_P(TrainingThreads, Conformance) {
  const auto& [rank_case, ranks] = GetParam();
  run_as_threads(ranks, rank_case.run);
}
TEST_P(TrainingThreads, ConformanceThroughStagingAreas) {
  const auto& [rank_case, ranks] = GetParam();
  run_as_threads(ranks, rank_case.run, {.staging_bytes = 4096, .direct = false});
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<RankCase, int>>& test) {
  return std::get<0>(test.param).name + "_" + std::to_string(std::get<1>(test.param));
}

auto on_one_to_four_ranks(std::span<const RankCase> cases) {
  return ::testing::Combine(::testing::ValuesIn(cases.begin(), cases.end()),
                            ::testing::Range(1, 5));
}

INSTANTIATE_TEST_SUITE_P(PowerSgd, TrainingThreads,
                         on_one_to_four_ranks(testing::power_sgd_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(ArenaOptimizer, TrainingThreads,
                         on_one_to_four_ranks(testing::arena_optimizer_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(LeftOut, TrainingThreads, on_one_to_four_ranks(testing::left_out_cases()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(ShardedOptimizer, TrainingThreads,
                         on_one_to_four_ranks(testing::sharded_optimizer_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(SharedStep, TrainingThreads,
                         on_one_to_four_ranks(testing::shared_step_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(ReplicaCheck, TrainingThreads,
                         on_one_to_four_ranks(testing::replica_check_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(FiniteCheck, TrainingThreads,
                         on_one_to_four_ranks(testing::finite_check_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(TrainingStep, TrainingThreads,
                         on_one_to_four_ranks(testing::training_step_cases()), name_of_case);

}  // namespace
}  // namespace kolo
