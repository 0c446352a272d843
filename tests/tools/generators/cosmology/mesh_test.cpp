#include "tools/generators/cosmology/mesh.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "tools/generators/cosmology/matter.h"

namespace kolo::cosmology {
namespace {

TEST(CosmologyMesh, TransformsThereAndBack) {
  const Mesh mesh(18, 10, 2);
  const Field field = white_noise(mesh, 5, 0);
  const Field again = mesh.inverse(mesh.forward(field));
  for (std::size_t i = 0; i < mesh.cells(); ++i) ASSERT_NEAR(again[i], field[i], 1e-13);
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
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const auto at = [&](std::size_t stride) {
      return k * static_cast<double>(i / stride % 16) * mesh.cell();
    };
    vectors[0][i] = std::sin(at(256)) + std::cos(8 * at(256));  // the latter at Nyquist
    vectors[1][i] = std::cos(2 * at(16)) + std::sin(at(1));
    vectors[2][i] = std::sin(3 * at(1));
  }
  const Field result = divergence(mesh, vectors);
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const auto at = [&](std::size_t stride) {
      return k * static_cast<double>(i / stride % 16) * mesh.cell();
    };
    const double expected =
        k * std::cos(at(256)) - 2 * k * std::sin(2 * at(16)) + 3 * k * std::cos(3 * at(1));
    ASSERT_NEAR(result[i], expected, 1e-12);
  }
}

}  // namespace
}  // namespace kolo::cosmology
