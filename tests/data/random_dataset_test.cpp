#include "kolo/data/dataset.h"

#include <cmath>
#include <set>

#include "data/read_sample.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

TEST(RandomDataset, DependsOnSeedAndIndexOnly) {
  const RandomDataset a({{1, 28, 28}, 10, {}}, 100, 7), again({{1, 28, 28}, 10, {}}, 50, 7),
      other({{1, 28, 28}, 10, {}}, 100, 8);
  std::set<float> firsts;
  for (std::int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(read_sample(a, i).input, read_sample(again, i).input);
    EXPECT_EQ(read_sample(a, i).label, read_sample(again, i).label);
    EXPECT_NE(read_sample(a, i).input, read_sample(other, i).input);
    firsts.insert(read_sample(a, i).input[0]);
  }
  EXPECT_GT(firsts.size(), 45U);
}

TEST(RandomDataset, IsNormalWithUniformLabels) {
  const RandomDataset dataset({{1000}, 4, {}}, 1000, 3);
  double sum = 0, squares = 0;
  std::vector<int> counts(4);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const auto sample = read_sample(dataset, i);
    for (const double x : sample.input) {
      sum += x;
      squares += x * x;
    }
    ++counts.at(static_cast<std::size_t>(sample.label));
  }
  EXPECT_NEAR(sum / 1e6, 0, .02);
  EXPECT_NEAR(squares / 1e6, 1, .02);
  for (const int count : counts) EXPECT_NEAR(count, 250, 70);
}

TEST(RandomDataset, FillsTargetsOfNumbersAndInputsLargerThanItsPool) {
  const RandomDataset dataset({{2, 200000}, 0, {3, 5}}, 2, 1);
  for (const std::int64_t index : {0, 1}) {
    const auto sample = read_sample(dataset, index);
    const auto is_finite = ::testing::ResultOf([](float x) { return std::isfinite(x); }, true);
    EXPECT_THAT(sample.input, Each(is_finite));
    EXPECT_THAT(sample.target, Each(is_finite));
  }
  EXPECT_NE(read_sample(dataset, 0).target, read_sample(dataset, 1).target);
}

}  // namespace
}  // namespace kolo::testing
