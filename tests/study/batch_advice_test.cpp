#include <limits>

#include <gtest/gtest.h>

#include "kolo/study/scale_study.h"

namespace kolo::testing {

// Equation 2.11: (steps - 1)(samples - 1) = 1, whatever the batch.
TEST(BatchAdvice, IsThePapersTradeOff) {
  for (const double batch : {1., 10., 300., 1e5}) {
    const auto advice = advise_batch(batch, 300, 64);
    EXPECT_NEAR((advice.steps - 1) * (advice.samples - 1), 1, 1e-9);
    EXPECT_NEAR(advice.rate, (1 + 300. / 64) / (1 + 300 / batch), 1e-12);
  }
  EXPECT_DOUBLE_EQ(advise_batch(300, 300, 64).steps, 2);
  EXPECT_DOUBLE_EQ(advise_batch(64, 300, 64).rate, 1);
  const auto noise_alone = advise_batch(128, std::numeric_limits<double>::infinity(), 64);
  EXPECT_EQ(noise_alone.rate, 2);
  EXPECT_EQ(noise_alone.samples, 1);
}

}  // namespace kolo::testing
