// Collectives on tensors, broadcasts of state and what is built on them, over ranks that are
// threads.
#include <tuple>

#include <gmock/gmock.h>

#include "kolo/comm/threads.h"
#include "parallel/tensor_cases.h"

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

INSTANTIATE_TEST_SUITE_P(Tensors, CollectivesThreads,
                         ::testing::Combine(::testing::ValuesIn(testing::tensor_cases().begin(),
                                                                testing::tensor_cases().end()),
                                            ::testing::Values(1, 2, 3, 4)),
                         name_of_case);

}  // namespace
}  // namespace kolo
