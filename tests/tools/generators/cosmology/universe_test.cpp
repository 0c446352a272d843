#include "tools/generators/cosmology/matter.h"

#include <gtest/gtest.h>

namespace kolo::cosmology {
namespace {

constexpr Universe universe;

TEST(CosmologyPower, HasTheShapeOfEisensteinAndHu) {
  const PowerSpectrum power(universe);
  EXPECT_NEAR(power.amplitude() / 3.0619e6, 1, 1e-4);
  EXPECT_NEAR(power(.01) / 22199, 1, 1e-4);
  EXPECT_NEAR(power(.1) / 5893.4, 1, 1e-4);
  EXPECT_NEAR(power(1) / 66.28, 1, 1e-4);
  EXPECT_NEAR(power(10) / .22266, 1, 1e-4);
}

TEST(CosmologyPower, FollowsSigma8) {
  Universe smoother = universe;
  smoother.sigma8 = .41;
  EXPECT_NEAR(PowerSpectrum(universe)(.5) / PowerSpectrum(smoother)(.5), 4, 1e-9);
}

TEST(CosmologyGrowth, IsWhatItShouldBeAtRedshift3) {
  EXPECT_NEAR(growth_factor(universe, box_scale_factor), .31690, 5e-6);
  EXPECT_NEAR(growth_rate(universe, box_scale_factor), .9814, 5e-5);
  EXPECT_NEAR(linear_velocity(universe, box_scale_factor), 111.17, .01);
  EXPECT_NEAR(growth_factor(universe, 1), 1, 1e-12);
}

TEST(CosmologyGrowth, TimesAreThoseOfAUniverseOfMatterAlone) {
  const Universe flat{.matter = 1, .dark_energy = 0};
  // E = a^-3/2, so da / (a^2 E) = a^-1/2 da and da / (a^3 E) = a^-3/2 da.
  EXPECT_NEAR(kick_time(flat, .04, .25), 2 * (.5 - .2), 1e-9);
  EXPECT_NEAR(drift_time(flat, .04, .25), 2 * (5 - 2), 1e-8);
  EXPECT_NEAR(growth_factor(flat, .25), .25, 1e-9);
  EXPECT_NEAR(drift_time(universe, .1, .2) + drift_time(universe, .2, .25),
              drift_time(universe, .1, .25), 1e-9);
}

}  // namespace
}  // namespace kolo::cosmology
