#include "kolo/sampling/running_statistics.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Values = std::vector<double>;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Reference {
  long double mean = 0, variance = 0;
};

template <typename T>
Reference reference_of(const std::vector<T>& values) {
  Reference reference;
  for (const T value : values) reference.mean += value;
  reference.mean /= static_cast<long double>(values.size());
  for (const T value : values) {
    const auto difference = value - reference.mean;
    reference.variance += difference * difference;
  }
  reference.variance /= static_cast<long double>(values.size());
  return reference;
}

// To a share of each, and what rounding the values leaves of the variance.
void expect_near(const ChannelStatistics& statistics, const Reference& reference,
                 double tolerance) {
  const auto mean = static_cast<double>(reference.mean);
  const auto variance = static_cast<double>(reference.variance);
  const double deviation = std::sqrt(variance);
  EXPECT_NEAR(statistics.mean, mean, tolerance * (std::abs(mean) + deviation));
  EXPECT_NEAR(statistics.variance(), variance, tolerance * (variance + deviation));
}

Values normal_values(std::mt19937_64& random, std::size_t count, double mean, double deviation) {
  std::normal_distribution<double> normal(mean, deviation);
  Values values(count);
  for (auto& value : values) value = normal(random);
  return values;
}

bool same_bits(const ChannelStatistics& a, const ChannelStatistics& b) {
  const auto bits = [](double number) { return std::bit_cast<std::uint64_t>(number); };
  return a.count == b.count && a.left_out == b.left_out && bits(a.mean) == bits(b.mean) &&
         bits(a.squares) == bits(b.squares);
}

TEST(RunningStatistics, AreThoseOfAllValues) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    const auto seed = random();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 own(seed);
    const auto values =
        normal_values(own, 1 + own() % 20'000, static_cast<double>(own() % 1000) - 500,
                      std::pow(10., static_cast<double>(own() % 8) - 4));
    RunningStatistics statistics(1);
    for (std::size_t begin = 0; begin < values.size();) {
      const auto count = std::min<std::size_t>(1 + own() % 5000, values.size() - begin);
      statistics.add(0, std::span(values).subspan(begin, count));
      begin += count;
    }
    EXPECT_EQ(statistics.channels()[0].count, static_cast<std::int64_t>(values.size()));
    expect_near(statistics.channels()[0], reference_of(values), 1e-11);
  }
}

TEST(RunningStatistics, LoseNothingFarFromZero) {
  std::mt19937_64 random(2);
  // Pressures, say: the textbook's mean of squares less the squared mean would have no digit left.
  const auto values = normal_values(random, 200'000, 1e6, 1e-3);
  RunningStatistics at_once(1), one_by_one(1);
  at_once.add(0, values);
  for (const double& value : values) one_by_one.add(0, std::span(&value, 1));
  const auto reference = reference_of(values);
  for (const auto* each : {&at_once, &one_by_one}) {
    const auto& channel = each->channels()[0];
    EXPECT_NEAR(channel.mean, static_cast<double>(reference.mean), 1e-7);
    EXPECT_NEAR(channel.variance(), static_cast<double>(reference.variance), 1e-6 * 1e-6);
    EXPECT_NEAR(channel.scale(), 1e-3, 1e-5);
  }
}

TEST(RunningStatistics, TakeFloatsAndStrides) {
  std::mt19937_64 random(3);
  constexpr std::size_t channels = 3, cells = 5000;
  std::vector<float> interleaved(channels * cells);
  for (auto& value : interleaved) value = static_cast<float>(random() % 1000) / 7.F;
  RunningStatistics strided(channels), contiguous(channels);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    strided.add(static_cast<std::int64_t>(channel), std::span(interleaved).subspan(channel),
                channels);
    std::vector<float> own;
    own.reserve(cells);
    for (std::size_t cell = 0; cell < cells; ++cell)
      own.push_back(interleaved[cell * channels + channel]);
    contiguous.add(static_cast<std::int64_t>(channel), own);
    expect_near(strided.channels()[channel], reference_of(own), 1e-12);
    EXPECT_TRUE(same_bits(strided.channels()[channel], contiguous.channels()[channel]));
  }
}

TEST(RunningStatistics, OfPartsMergedAreThoseOfTheWhole) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 50; ++round) {
    const auto seed = random();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 own(seed);
    const auto values = normal_values(own, 30'000, 20, 3);
    RunningStatistics whole(1), merged(1), again(1);
    whole.add(0, values);
    whole.count_samples(30'000);
    std::vector<RunningStatistics> ranks(1 + own() % 7, RunningStatistics(1));
    for (std::size_t i = 0; i < values.size();) {
      auto& rank = ranks[own() % ranks.size()];  // some may get nothing
      const auto count = std::min<std::size_t>(1 + own() % 10'000, values.size() - i);
      rank.add(0, std::span(values).subspan(i, count));
      rank.count_samples(static_cast<std::int64_t>(count));
      i += count;
    }
    for (const auto& rank : ranks) merged.merge(rank);
    for (const auto& rank : ranks) again.merge(rank);
    const auto& a = merged.channels()[0];
    const auto& b = whole.channels()[0];
    EXPECT_EQ(a.count, b.count);
    EXPECT_EQ(merged.samples(), 30'000);
    EXPECT_NEAR(a.mean, b.mean, 1e-12 * std::abs(b.mean));
    EXPECT_NEAR(a.variance(), b.variance(), 1e-12 * b.variance());
    EXPECT_TRUE(same_bits(a, again.channels()[0]));
  }
}

TEST(RunningStatistics, CountAndLeaveOutWhatIsNotFinite) {
  const Values bad{1, nan, 2, infinity, -infinity, 3, 1e200, -nan, 4};
  RunningStatistics statistics(1), clean(1);
  statistics.add(0, bad);
  clean.add(0, Values{1, 2, 3, 4});
  EXPECT_EQ(statistics.channels()[0].left_out, 5);
  EXPECT_EQ(statistics.channels()[0].count, 4);
  EXPECT_EQ(statistics.channels()[0].mean, clean.channels()[0].mean);
  EXPECT_EQ(statistics.channels()[0].squares, clean.channels()[0].squares);
  statistics.add(0, Values(3000, nan));  // a field that has blown up
  EXPECT_EQ(statistics.channels()[0].left_out, 3005);
  EXPECT_EQ(statistics.channels()[0].mean, 2.5);
  EXPECT_EQ(statistics.channels()[0].variance(), 1.25);

  RunningStatistics only_bad(1);
  only_bad.add(0, Values{nan});
  EXPECT_EQ(only_bad.channels()[0].mean, 0);
  EXPECT_EQ(only_bad.channels()[0].scale(), 1);
  only_bad.merge(statistics);
  EXPECT_EQ(only_bad.channels()[0].left_out, 3006);
  EXPECT_EQ(only_bad.channels()[0].mean, 2.5);
}

// Programs that have floating-point exceptions end them are not ended by bad values.
TEST(RunningStatistics, RaiseNoFloatingPointException) {
  std::feclearexcept(FE_ALL_EXCEPT);
  RunningStatistics statistics(1);
  statistics.add(0, Values{1, nan, infinity, -infinity, 1e300, 1e140, -1e140});
  statistics.add(0, std::vector<float>{static_cast<float>(nan), 3e38F, 1});
  statistics.merge(statistics);
  EXPECT_GT(statistics.channels()[0].scale(), 0);
  EXPECT_EQ(std::fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW), 0);
}

TEST(RunningStatistics, TheLargestValuesStayFinite) {
  RunningStatistics statistics(1);
  for (int i = 0; i < 100; ++i) statistics.add(0, Values(2000, i % 2 == 0 ? 1e140 : -1e140));
  EXPECT_TRUE(std::isfinite(statistics.channels()[0].variance()));
  EXPECT_NEAR(statistics.channels()[0].scale(), 1e140, 1e128);
}

TEST(RunningStatistics, AConstantChannelHasScaleOne) {
  for (const double value : {0., 0.1, -1e6, 1e-30, 1e100}) {
    RunningStatistics statistics(1), parts(1);
    for (int i = 0; i < 7; ++i) {
      RunningStatistics part(1);
      part.add(0, Values(static_cast<std::size_t>(1 + 999 * i), value));
      parts.merge(part);
      statistics.add(0, Values(1777, value));
    }
    for (const auto* each : {&statistics, &parts}) {
      EXPECT_EQ(each->channels()[0].mean, value);
      EXPECT_EQ(each->channels()[0].scale(), 1);
    }
  }
  // Constant, but computed in two ways.
  RunningStatistics rounded(1);
  rounded.add(0, Values{0.3, 0.1 + 0.2, 0.3});
  EXPECT_EQ(rounded.channels()[0].scale(), 1);
  // Not constant, but small: a part in a billion of the mean.
  RunningStatistics small(1);
  small.add(0, Values{1e6 - 1e-3, 1e6 + 1e-3});
  EXPECT_NEAR(small.channels()[0].scale(), 1e-3, 1e-9);
}

// Values that a float32 has instead of one constant, and some that are a little further apart.
TEST(RunningStatistics, AConstantChannelOfFloatsHasScaleOne) {
  std::mt19937_64 random(6);
  std::uniform_real_distribution<float> constant(1, 2);
  for (int round = 0; round < 100; ++round) {
    const auto unit = std::ldexp(1.F, static_cast<int>(random() % 40) - 20);
    const float value = constant(random) * unit;
    std::vector<float> rounded(1000, value), apart(1000, value);
    for (std::size_t i = 0; i < rounded.size(); i += 1 + random() % 3) {
      const bool is_up = random() % 2 == 0;
      rounded[i] = std::nextafter(value, is_up ? 4 * unit : 0.F);
      apart[i] = value * (is_up ? 1 + 1e-5F : 1 - 1e-5F);
    }
    RunningStatistics of_rounded(1), of_apart(1);
    of_rounded.add(0, rounded);
    of_apart.add(0, apart);
    EXPECT_NE(of_rounded.channels()[0].scale(), 1);
    EXPECT_EQ(of_rounded.channels()[0].scale(float32_rounding), 1);
    EXPECT_EQ(of_apart.channels()[0].scale(float32_rounding), of_apart.channels()[0].scale());
    EXPECT_LT(of_apart.channels()[0].scale(), 1e-4 * value);
  }
}

TEST(RunningStatistics, GoOnFromWhatWasSaved) {
  std::mt19937_64 random(5);
  const auto values = normal_values(random, 10'000, 5, 2);
  RunningStatistics whole(1), restored(1);
  whole.add(0, std::span(values).first(3333));
  whole.count_samples(10);
  restored.restore(whole.samples(), whole.channels());
  for (auto* each : {&whole, &restored}) {
    each->add(0, std::span(values).subspan(3333));
    each->count_samples(10);
  }
  EXPECT_TRUE(same_bits(whole.channels()[0], restored.channels()[0]));
  EXPECT_EQ(restored.samples(), 20);
}

TEST(RunningStatistics, RejectArguments) {
  EXPECT_TRUE(says(message_of<InputError>([] { RunningStatistics(0); }), {"0 channels"}));
  RunningStatistics statistics(2);
  statistics.add(1, Values{1, 2});
  EXPECT_TRUE(says(message_of<Error>([&] { statistics.add(2, Values{1}); }),
                   {"channel 2 with stride 1, expected a channel of 0 to 1"}));
  EXPECT_THROW(statistics.add(-1, Values{1}), Error);
  EXPECT_THROW(statistics.add(0, Values{1}, 0), Error);
  EXPECT_THROW(statistics.count_samples(-1), Error);
  EXPECT_THROW(statistics.merge(RunningStatistics(3)), Error);
  const auto refused = [&](const ChannelStatistics& channel) {
    const std::vector<ChannelStatistics> saved{channel, {}};
    return message_of<InputError>([&] { statistics.restore(3, saved); });
  };
  EXPECT_TRUE(says(refused({.count = -1}), {"-1 values"}));
  EXPECT_TRUE(says(refused({.count = 1, .mean = nan}), {"mean nan"}));
  EXPECT_TRUE(says(refused({.count = 1, .squares = infinity}), {"squares inf"}));
  EXPECT_THROW(statistics.restore(3, std::vector<ChannelStatistics>(1)), InputError);
  EXPECT_EQ(statistics.channels()[1].count, 2);
}

}  // namespace
}  // namespace kolo::testing
