#include <tuple>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/comm/threads.h"
#include "kolo/parallel/gradient_reducer.h"
#include "parallel/gradients/parallel_cases.h"
#include "parallel/small_network.h"

namespace kolo {
namespace {

using testing::RankCase;

class ParallelThreads : public ::testing::TestWithParam<std::tuple<RankCase, int>> {};

TEST_P(ParallelThreads, Conformance) {
  const auto& [rank_case, ranks] = GetParam();
  run_as_threads(ranks, rank_case.run);
}

INSTANTIATE_TEST_SUITE_P(All, ParallelThreads,
                         ::testing::Combine(::testing::ValuesIn(testing::parallel_cases().begin(),
                                                                testing::parallel_cases().end()),
                                            ::testing::Values(1, 2, 3)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

TEST(GradientReducer, ASecondBackwardBetweenWaitAndFinishIsAnError) {
  testing::SmallNetwork network;
  const auto solo = Communicator::solo();
  GradientReducer reducer(solo, std::make_shared<ParameterArena>(solo, network));
  testing::mean_loss(network, testing::samples(0, 2)).backward();
  reducer.wait(0);
  EXPECT_THROW(testing::mean_loss(network, testing::samples(0, 2)).backward(), std::exception);
}

TEST(GradientReducer, TheModuleOutlivesIt) {
  testing::SmallNetwork network;
  const auto solo = Communicator::solo();
  { GradientReducer reducer(solo, std::make_shared<ParameterArena>(solo, network)); }
  for (auto& parameter : network.parameters()) parameter.mutable_grad() = torch::Tensor();
  testing::mean_loss(network, testing::samples(0, 2)).backward();
  EXPECT_TRUE(network.first->weight.grad().defined());
}

}  // namespace
}  // namespace kolo
