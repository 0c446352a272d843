#include "tools/generators/cosmology/matter.h"

#include <cmath>
#include <numbers>
#include <utility>

#include <gtest/gtest.h>

#include "tools/generators/cosmology/spectra.h"

namespace kolo::cosmology {
namespace {

constexpr Universe universe;
constexpr double start = 1. / 33;

TEST(ParticleMesh, LargeStructureGrowsAsLinearTheorySays) {
  const Mesh mesh(64, 20, 1);
  const Modes early =
      linear_density(mesh, PowerSpectrum(universe), growth_factor(universe, start), 1);
  auto particles = displaced_particles(mesh, universe, start, first_order_displacement(mesh, early),
                                       VectorField());
  evolve(mesh, universe, start, box_scale_factor, 20, particles, {});
  Field density(64);
  deposit_density(mesh, particles, density);
  EXPECT_NEAR(testing::mean(density), 1, 1e-12);
  const Modes late = mesh.forward(density);
  const double growth = growth_factor(universe, box_scale_factor) / growth_factor(universe, start);
  const auto grown = [&](double from, double to) {
    return std::sqrt(testing::mean_power(mesh, late, from, to) /
                     testing::mean_power(mesh, early, from, to)) /
           growth;
  };
  EXPECT_NEAR(grown(.3, .5), 1, .05);
  EXPECT_GT(grown(4, 6), 1.1) << "small structure grows faster once it is dense";
}

// A plane wave is solved by its first-order displacement until particles meet: for all time,
// x = q + D(a) / D(start) psi(q). Not quite near the nodes, where particles move by less than the
// mesh resolves.
TEST(ParticleMesh, FollowsAPlaneWave) {
  const Mesh mesh(64, 64, 2);
  const double k = 2 * std::numbers::pi / 64, late_amplitude = .5 / k;
  const double growth = growth_factor(universe, box_scale_factor) / growth_factor(universe, start);
  VectorField displacement = {Field(64), Field(64), Field(64)};
  Field expected(64), moved(64);
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    expected[i] = late_amplitude * std::sin(k * static_cast<double>(i / 64 % 64));
    displacement[1][i] = expected[i] / growth;
  }
  auto particles =
      displaced_particles(mesh, universe, start, std::move(displacement), VectorField());
  evolve(mesh, universe, start, box_scale_factor, 20, particles, {});
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const double way = particles.position[1][i] - static_cast<double>(i / 64 % 64);
    moved[i] = way - 64 * std::round(way / 64);
    ASSERT_NEAR(moved[i], expected[i], .05 * late_amplitude);
    ASSERT_NEAR(particles.velocity[0][i], 0, 1e-9);
  }
  EXPECT_NEAR(testing::slope(expected, moved), 1, .01);
  const double speed = linear_velocity(universe, box_scale_factor);
  EXPECT_NEAR(testing::slope(expected, particles.velocity[1]) / speed, 1, .01);
}

TEST(ParticleMesh, KeepsMomentumAndReportsItsSteps) {
  const Mesh mesh(32, 5, 2);
  const Modes early =
      linear_density(mesh, PowerSpectrum(universe), growth_factor(universe, start), 2);
  auto particles = displaced_particles(mesh, universe, start, first_order_displacement(mesh, early),
                                       VectorField());
  int last = 0;
  evolve(mesh, universe, start, box_scale_factor, 5, particles, [&](int step) {
    EXPECT_EQ(step, last + 1);
    last = step;
  });
  EXPECT_EQ(last, 5);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(testing::mean(particles.velocity[axis]), 0, 1e-9);
    for (const double place : particles.position[axis].values()) {
      ASSERT_GE(place, 0);
      ASSERT_LE(place, 32);
    }
  }
}

}  // namespace
}  // namespace kolo::cosmology
