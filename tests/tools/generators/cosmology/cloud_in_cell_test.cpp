#include "tools/generators/cosmology/matter.h"

#include <numeric>

#include <gtest/gtest.h>

#include "tools/generators/cosmology/spectra.h"
#include "kolo/base/random.h"

namespace kolo::cosmology {
namespace {

Particles random_particles(const Mesh& mesh, std::uint64_t seed) {
  Particles particles;
  CounterRandom random(seed, 0, 0);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    particles.position[axis] = Field(mesh.size());
    particles.velocity[axis] = Field(mesh.size());
    for (std::size_t i = 0; i < mesh.cells(); ++i) {
      particles.position[axis][i] = random.uniform() * static_cast<double>(mesh.size());
      particles.velocity[axis][i] = 100 * random.normal();
    }
  }
  return particles;
}

TEST(CloudInCell, SharesByDistance) {
  const Cloud cloud(8, 7.25, 0, 3.5);
  double at_own = 0, at_next = 0, across = 0;
  for (std::size_t corner = 0; corner < 8; ++corner) {
    if (cloud.cells[corner] == (7 * 8 + 0) * 8 + 3) at_own += cloud.weights[corner];
    if (cloud.cells[corner] == (7 * 8 + 0) * 8 + 4) at_next += cloud.weights[corner];
    if (cloud.cells[corner] == 4) across += cloud.weights[corner];
  }
  EXPECT_DOUBLE_EQ(at_own, .75 * .5);
  EXPECT_DOUBLE_EQ(at_next, .75 * .5);
  EXPECT_DOUBLE_EQ(across, .25 * .5) << "periodic";
  EXPECT_DOUBLE_EQ(std::accumulate(cloud.weights.begin(), cloud.weights.end(), 0.), 1);
}

TEST(CloudInCell, TheBoxsEndIsItsBeginning) {
  const Cloud end(8, 8, 8, 8), begin(8, 0, 0, 0);
  EXPECT_EQ(end.cells, begin.cells);
  EXPECT_EQ(end.weights, begin.weights);
}

TEST(CloudInCell, KeepsMassMomentumAndEnergy) {
  const Mesh mesh(32, 5, 1);
  const auto particles = random_particles(mesh, 1);
  const Moments moments = deposit_moments(mesh, particles);
  EXPECT_NEAR(testing::mean(moments.density), 1, 1e-12);
  double square_speed = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(testing::mean(moments.momentum[axis]), testing::mean(particles.velocity[axis]),
                1e-9);
    for (const double v : particles.velocity[axis].values()) square_speed += v * v;
  }
  EXPECT_NEAR(
      testing::mean(moments.square_speed) * static_cast<double>(mesh.cells()) / square_speed, 1,
      1e-12);
  Field density(32);
  deposit_density(mesh, particles, density);
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    ASSERT_EQ(density[i], moments.density[i]);
    // No cell moves faster than what is in it.
    double square_of_mean = 0;
    for (const auto& momentum : moments.momentum) square_of_mean += momentum[i] * momentum[i];
    ASSERT_LE(square_of_mean, moments.square_speed[i] * density[i] * (1 + 1e-12));
  }
}

}  // namespace
}  // namespace kolo::cosmology
