#include "tools/generators/cosmology/matter.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "kolo/base/random.h"
#include "tools/generators/cosmology/spectra.h"

namespace kolo::cosmology {
namespace {

constexpr Universe universe;
constexpr double start = 1. / 33;

TEST(CosmologyPower, HasTheShapeOfEisensteinAndHu) {
  const PowerSpectrum power(universe);
  EXPECT_NEAR(power(.01) / 22199, 1, 1e-4);
  EXPECT_NEAR(power(.1) / 5893.4, 1, 1e-4);
  EXPECT_NEAR(power(1) / 66.28, 1, 1e-4);
  EXPECT_NEAR(power(10) / .22266, 1, 1e-4);
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

TEST(CosmologyMesh, AWaveIsOneMode) {
  const Mesh mesh(16, 8, 1);
  const double kx = 2 * std::numbers::pi / 8 * 3, kz = 2 * std::numbers::pi / 8 * 2;
  Field field(16);
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const double x = static_cast<double>(i / 256) * mesh.cell();
    const double z = static_cast<double>(i % 16) * mesh.cell();
    field[i] = 2 * std::cos(-kx * x + kz * z) + 1;
  }
  const Modes modes = mesh.forward(field);
  mesh.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
    const bool is_wave =
        std::abs(wave.k[0] + kx) + std::abs(wave.k[1]) < 1e-9 && std::abs(wave.k[2] - kz) < 1e-9;
    ASSERT_NEAR(std::abs(modes[i] - (is_wave || wave.square == 0 ? 1. : 0.)), 0, 1e-14);
  });
}

TEST(CosmologyMesh, DivergenceIsThatOfWaves) {
  const Mesh mesh(16, 4, 1);
  const double k = 2 * std::numbers::pi / 4;
  VectorField vectors = {Field(16), Field(16), Field(16)};
  Field expected(16);
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const auto at = [&](std::size_t stride) {
      return k * static_cast<double>(i / stride % 16) * mesh.cell();
    };
    vectors[0][i] = std::sin(at(256)) + std::cos(8 * at(256));  // the latter at Nyquist
    vectors[1][i] = std::cos(2 * at(16)) + std::sin(at(1));
    vectors[2][i] = std::sin(3 * at(1));
    expected[i] =
        k * std::cos(at(256)) - 2 * k * std::sin(2 * at(16)) + 3 * k * std::cos(3 * at(1));
  }
  const Field result = divergence(mesh, vectors);
  for (std::size_t i = 0; i < mesh.cells(); ++i) ASSERT_NEAR(result[i], expected[i], 1e-12);
}

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
  // The box's end is its beginning.
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

Modes early_density(const Mesh& mesh, std::uint64_t seed) {
  return linear_density(mesh, PowerSpectrum(universe), growth_factor(universe, start), seed);
}

Particles early_particles(const Mesh& mesh, const Modes& density) {
  return displaced_particles(mesh, universe, start, linear_displacement(mesh, density));
}

TEST(ParticleMesh, LargeStructureGrowsAsLinearTheorySays) {
  const Mesh mesh(64, 20, 1);
  const Modes early = early_density(mesh, 1);
  auto particles = early_particles(mesh, early);
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
  auto particles = displaced_particles(mesh, universe, start, std::move(displacement));
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
  auto particles = early_particles(mesh, early_density(mesh, 2));
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
