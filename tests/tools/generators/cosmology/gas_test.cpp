#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "tools/generators/cosmology/matter.h"
#include "tools/generators/cosmology/spectra.h"

namespace kolo::cosmology {
namespace {

constexpr Universe universe;

// 64 cells of 78.125 kpc/h, as boxes have them.
class CosmologyGas : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    constexpr double start = 1. / 33;
    const Mesh mesh(64, 5, 1);
    const Modes early =
        linear_density(mesh, PowerSpectrum(universe), growth_factor(universe, start), 1);
    particles = displaced_particles(mesh, universe, start, linear_displacement(mesh, early));
    evolve(mesh, universe, start, box_scale_factor, 20, particles, {});
  }
  static void TearDownTestSuite() { particles = {}; }

  [[nodiscard]] Moments moments() const { return deposit_moments(mesh, particles); }
  [[nodiscard]] Gas gas() const { return make_gas(mesh, universe, moments()); }

  static inline Particles particles;
  const Mesh mesh{64, 5, 1};
};

TEST_F(CosmologyGas, PressureSmoothsIt) {
  EXPECT_NEAR(filter_wave_number(universe), 12.23, .005);
  const Modes matter = mesh.forward(moments().density);
  const Modes smoothed = mesh.forward(gas().density);
  const double filter = filter_wave_number(universe);
  for (double k = 1; k + 1 <= filter; k += 1) {
    const double ratio =
        testing::mean_power(mesh, smoothed, k, k + 1) /
        testing::mean_over_modes(mesh, k, k + 1, [&](std::size_t i, double wave) {
          return std::norm(matter[i]) * std::exp(-2 * wave * wave / filter / filter);
        });
    EXPECT_NEAR(ratio, 1, .02) << "k = " << k;
  }
}

TEST_F(CosmologyGas, TemperatureFollowsDensityWhereNothingHeats) {
  EXPECT_NEAR(std::log(quiet_temperature(.2) / quiet_temperature(.1)) / std::log(2), .45, .001);
  EXPECT_NEAR(quiet_temperature(1), 1.2e4, 10);
  EXPECT_NEAR(quiet_temperature(1e6), 1.2e4 * std::pow(30, .45), 1) << "dense gas cools";
}

TEST_F(CosmologyGas, HeatingOnlyHeats) {
  const Gas heated = gas();
  double warmer = 0;
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const double quiet = quiet_temperature(heated.density[i]);
    ASSERT_GE(heated.temperature[i], quiet);
    if (heated.temperature[i] > 1.1 * quiet) warmer += 1;
  }
  EXPECT_GT(warmer / static_cast<double>(mesh.cells()), .01);
}

TEST_F(CosmologyGas, FallsTogetherWhereItIsDense) {
  const Gas made = gas();
  Field density(64);
  for (std::size_t i = 0; i < mesh.cells(); ++i) density[i] = std::log(made.density[i]);
  const double middle = testing::mean(density);
  for (double& value : density.values()) value -= middle;
  EXPECT_LT(testing::slope(density, divergence(mesh, made.velocity)), -20)
      << "km/s per Mpc/h; linear theory: -111";
}

// Two sheets of matter that run towards each other along x.
TEST(CosmologyShock, HeatsByItsSpeed) {
  const Mesh mesh(32, 3.2, 1);  // cells of .1 Mpc/h
  const double k = 2 * std::numbers::pi / 3.2, speed = 100;
  Moments moments{Field(32), {Field(32), Field(32), Field(32)}, Field(32)};
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    moments.density[i] = 1;
    const double v = speed * std::sin(k * static_cast<double>(i / 1024) * mesh.cell());
    moments.momentum[0][i] = v;
    moments.square_speed[i] =
        v * v + 3 * 50. * 50;  // and random motions of 50 km/s along each axis
  }
  const Gas made = make_gas(mesh, universe, std::move(moments));
  const double filter = filter_wave_number(universe);
  const double smoothing = std::exp(-k * k / filter / filter);
  // At half the box -div v is greatest; the smoothed v^2 there is (1 - smoothing^4) / 2 speed^2.
  const std::size_t middle = 16 * 1024;
  const double shock = .25 * speed * k * smoothing;
  const double dispersion = 2500 + speed * speed * (1 - std::pow(smoothing, 4)) / 2 / 3;
  const double expected =
      quiet_temperature(1) + 1.340e5 * shock * shock / 1e4 + .25 * 7.148e5 * dispersion / 1e4;
  EXPECT_NEAR(made.temperature[middle] / expected, 1, 1e-3);
  EXPECT_NEAR(made.velocity[0][24 * 1024], -speed * smoothing, 1e-9);
  // Gas that runs apart has no shock.
  EXPECT_NEAR(made.temperature[0], quiet_temperature(1) + .25 * 7.148e5 * dispersion / 1e4, 100);
}

}  // namespace
}  // namespace kolo::cosmology
