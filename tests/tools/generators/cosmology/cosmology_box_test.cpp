#include "kolo/tools/generators.h"

#include <cmath>
#include <map>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

CosmologyOptions small(std::uint64_t seed = 1) {
  return {.size = 32, .seed = seed};
}

TEST(CosmologyBox, IsTheSameForTheSameSeedAndAnyThreads) {
  auto options = small();
  const auto box = make_cosmology_box(options);
  options.threads = 3;
  const auto again = make_cosmology_box(options);
  EXPECT_EQ(box.nbody, again.nbody);
  EXPECT_EQ(box.hydro, again.hydro);
  EXPECT_EQ(box.parameters, again.parameters);
  options.seed = 2;
  const auto other = make_cosmology_box(options);
  EXPECT_NE(box.nbody, other.nbody);
  EXPECT_NE(box.hydro, other.hydro);
}

TEST(CosmologyBox, HasValuesThatNetworksCanMake) {
  const auto box = make_cosmology_box(small(3));
  const std::size_t cells = 32 * 32 * 32;
  ASSERT_EQ(box.size, 32);
  ASSERT_EQ(box.nbody.size(), 4 * cells);
  ASSERT_EQ(box.hydro.size(), 5 * cells);
  for (const auto& values : {box.nbody, box.hydro}) {
    for (const float value : values) ASSERT_LE(std::abs(value), .999F);
  }
  double matter = 0, gas = 0;
  for (std::size_t i = 0; i < cells; ++i) {
    matter += std::expm1(14. * box.nbody[i]);
    gas += std::exp(14. * box.hydro[i]);
    const double temperature = std::exp(8 * (box.hydro[4 * cells + i] + 1.5));
    ASSERT_GT(temperature, 100);
    ASSERT_LT(temperature, 1e8);
  }
  EXPECT_NEAR(matter / static_cast<double>(cells), 1, 1e-5);
  EXPECT_NEAR(gas / static_cast<double>(cells), 1, 1e-5);
  // Gas moves as the matter that it falls with.
  double product = 0, square = 0;
  for (std::size_t i = cells; i < 4 * cells; ++i) {
    product += box.nbody[i] * box.hydro[i];
    square += box.nbody[i] * box.nbody[i];
  }
  EXPECT_NEAR(product / square, 1, .25);
}

TEST(CosmologyBoxOptions, CropIsACornerOfTheWhole) {
  auto options = small();
  const auto whole = make_cosmology_box(options);
  options.crop = 10;
  const auto part = make_cosmology_box(options);
  ASSERT_EQ(part.size, 10);
  ASSERT_EQ(part.hydro.size(), 5U * 1000);
  for (std::size_t channel = 0; channel < 5; ++channel) {
    for (std::size_t i = 0; i < 1000; ++i) {
      const auto x = i / 100, y = i / 10 % 10, z = i % 10;
      ASSERT_EQ(part.hydro[channel * 1000 + i],
                whole.hydro[((channel * 32 + x) * 32 + y) * 32 + z]);
    }
  }
}

TEST(CosmologyBoxOptions, AreRecordedAndProgressGoesFrom0To1) {
  double last = -1;
  std::vector<std::string> stages;
  const auto box = make_cosmology_box({.size = 16, .seed = 9, .crop = 8},
                                      [&](double fraction, std::string_view stage) {
                                        EXPECT_GE(fraction, last);
                                        last = fraction;
                                        if (stages.empty() || stages.back() != stage)
                                          stages.emplace_back(stage);
                                      });
  const std::map<std::string, double> parameters(box.parameters.begin(), box.parameters.end());
  EXPECT_EQ(parameters.at("seed"), 9);
  EXPECT_EQ(parameters.at("cell_kpc_per_h"), 78.125);
  EXPECT_EQ(parameters.at("generated_size"), 16);
  EXPECT_EQ(parameters.at("redshift"), 3);
  EXPECT_EQ(parameters.at("particle_mesh_steps"), 20);
  EXPECT_EQ(last, 1);
  EXPECT_EQ(stages, (std::vector<std::string>{"initial conditions", "gravity", "gas"}));
}

TEST(CosmologyBoxOptions, AreChecked) {
  const auto refused = [](const CosmologyOptions& options) {
    return message_of<InputError>([&] { (void)make_cosmology_box(options); });
  };
  for (const std::int64_t size : {-2, 0, 14, 33, 1026}) {
    EXPECT_TRUE(
        says(refused({.size = size}), {std::to_string(size), "an even number, 16 to 1024"}));
  }
  EXPECT_TRUE(says(refused({.size = 16, .crop = 17}), {"17 cells per edge cut out of 16"}));
  EXPECT_TRUE(says(refused({.size = 16, .seed = ~0ULL}), {"9007199254740992"}));
  EXPECT_TRUE(says(refused({.size = 16, .threads = 0}), {"0 threads"}));
}

}  // namespace
}  // namespace kolo::testing
