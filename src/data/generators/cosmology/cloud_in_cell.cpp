#include "data/generators/cosmology/cloud_in_cell.h"

#include <algorithm>

namespace kolo::cosmology {

namespace {

Cloud cloud_of(const Mesh& mesh, const Particles& particles, std::size_t i) {
  const auto& [x, y, z] = particles.position;
  return {mesh.size(), x[i], y[i], z[i]};
}

}  // namespace

// Both by one thread: sums must come about in one order.
void deposit_density(const Mesh& mesh, const Particles& particles, Field& density) {
  std::ranges::fill(density.values(), 0.);
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const Cloud cloud = cloud_of(mesh, particles, i);
    for (std::size_t corner = 0; corner < 8; ++corner) {
      density[cloud.cells[corner]] += cloud.weights[corner];
    }
  }
}

Moments deposit_moments(const Mesh& mesh, const Particles& particles) {
  const auto n = mesh.size();
  Moments moments{Field(n), {Field(n), Field(n), Field(n)}, Field(n)};
  const auto& [vx, vy, vz] = particles.velocity;
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const Cloud cloud = cloud_of(mesh, particles, i);
    const double square_speed = vx[i] * vx[i] + vy[i] * vy[i] + vz[i] * vz[i];
    for (std::size_t corner = 0; corner < 8; ++corner) {
      const auto cell = cloud.cells[corner];
      const double weight = cloud.weights[corner];
      moments.density[cell] += weight;
      moments.momentum[0][cell] += weight * vx[i];
      moments.momentum[1][cell] += weight * vy[i];
      moments.momentum[2][cell] += weight * vz[i];
      moments.square_speed[cell] += weight * square_speed;
    }
  }
  return moments;
}

}  // namespace kolo::cosmology
