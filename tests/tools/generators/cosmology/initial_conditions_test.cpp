#include "tools/generators/cosmology/matter.h"

#include <cmath>
#include <numbers>
#include <utility>

#include <gtest/gtest.h>

#include "tools/generators/cosmology/spectra.h"

namespace kolo::cosmology {
namespace {

using testing::mean;
using testing::mean_over_modes;
using testing::slope;

constexpr Universe universe;
constexpr double pi = std::numbers::pi;

TEST(CosmologyNoise, IsNormalAndBelongsToSeedAndCell) {
  const Mesh mesh(64, 5, 1), threaded(64, 5, 3);
  const Field noise = white_noise(mesh, 1);
  double square = 0, fourth = 0;
  for (const double value : noise.values()) {
    square += value * value;
    fourth += value * value * value * value;
  }
  const auto count = static_cast<double>(mesh.cells());
  EXPECT_NEAR(mean(noise), 0, .01);
  EXPECT_NEAR(square / count, 1, .01);
  EXPECT_NEAR(fourth / count, 3, .05);
  EXPECT_TRUE(std::ranges::equal(noise.values(), white_noise(threaded, 1).values()));
  EXPECT_LT(std::abs(slope(noise, white_noise(mesh, 2))), .01);
}

TEST(CosmologyField, HasThePowerItWasMadeWith) {
  const Mesh mesh(64, 5, 1);
  const PowerSpectrum power(universe);
  const double growth = growth_factor(universe, box_scale_factor);
  const Modes density = linear_density(mesh, power, growth, 1);
  const double volume = std::pow(mesh.length(), 3), fundamental = 2 * pi / mesh.length();
  const double ratio = mean_over_modes(mesh, 3 * fundamental, 1e9, [&](std::size_t i, double k) {
    return std::norm(density[i]) * volume / (growth * growth * power(k));
  });
  EXPECT_NEAR(ratio, 1, .02);
  EXPECT_EQ(density[0], 0.);
}

TEST(CosmologyDisplacement, DivergesAsTheDensity) {
  const Mesh mesh(32, 5, 2);
  const Modes density = linear_density(mesh, PowerSpectrum(universe), 1, 3);
  Modes without_nyquist(32);
  mesh.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
    if (wave.k == wave.odd) without_nyquist[i] = density[i];
  });
  const Field back = divergence(mesh, linear_displacement(mesh, without_nyquist));
  const Field field = mesh.inverse(std::move(without_nyquist));
  EXPECT_NEAR(mean(field), 0, 1e-12);
  for (std::size_t i = 0; i < mesh.cells(); ++i) ASSERT_NEAR(back[i], -field[i], 1e-10);
}

TEST(CosmologyDisplacement, MovesParticlesWithTheGrowingMode) {
  const Mesh mesh(16, 8, 1);
  VectorField first = {Field(16), Field(16), Field(16)};
  first[0][0] = -.25;  // half a cell, over the box's edge
  first[2][5] = 1;
  const auto particles = displaced_particles(mesh, universe, box_scale_factor, std::move(first));
  EXPECT_DOUBLE_EQ(particles.position[0][0], 15.5);
  EXPECT_DOUBLE_EQ(particles.position[2][5], 5 + 2);
  EXPECT_DOUBLE_EQ(particles.position[1][17], 1);
  EXPECT_NEAR(particles.velocity[0][0], -.25 * 111.17, .01);
  EXPECT_NEAR(particles.velocity[2][5], 111.17, .01);
}

}  // namespace
}  // namespace kolo::cosmology
