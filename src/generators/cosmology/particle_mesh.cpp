#include "generators/cosmology/particle_mesh.h"

#include <algorithm>
#include <cmath>

namespace kolo::cosmology {

namespace {

// The force a particle at rest would feel, in units of H0^2 Mpc/h: -grad phi with
// laplace phi = 1.5 Om delta.
class Gravity {
 public:
  Gravity(const Mesh& mesh, const Universe& universe)
      : mesh_(mesh), strength_(1.5 * universe.matter), density_(mesh.size()), modes_(mesh.size()) {
    for (auto& field : force_) field = Field(mesh.size());
    for (auto& modes : scratch_) modes = Modes(mesh.size());
  }

  void update(const Particles& particles) {
    deposit_density(mesh_, particles, density_);
    mesh_.forward(density_, modes_);
    mesh_.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
      // The forces' amplitudes are i k strength density_k / k^2.
      const double factor = wave.square > 0 ? strength_ / wave.square : 0;
      const double real = factor * modes_[i].real(), imaginary = factor * modes_[i].imag();
      for (std::size_t axis = 0; axis < 3; ++axis) {
        scratch_[axis][i] = {-wave.odd[axis] * imaginary, wave.odd[axis] * real};
      }
    });
    for_each_index(3, mesh_.threads(), [&](std::int64_t number) {
      const auto axis = static_cast<std::size_t>(number);
      mesh_.inverse(scratch_[axis], force_[axis]);
    });
  }

  [[nodiscard]] const VectorField& force() const { return force_; }

 private:
  const Mesh& mesh_;
  double strength_;
  Field density_;
  Modes modes_;
  std::array<Modes, 3> scratch_;
  VectorField force_;
};

// The particles' velocities are momenta a^2 dx/dt in units of H0 Mpc/h from here to the end of
// evolve().
void kick(const Mesh& mesh, const VectorField& force, double time, Particles& particles) {
  const auto& [x, y, z] = particles.position;
  mesh.for_each_part([&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      const Cloud cloud(mesh.size(), x[i], y[i], z[i]);
      std::array<double, 3> pull{};
      for (std::size_t corner = 0; corner < 8; ++corner) {
        for (std::size_t axis = 0; axis < 3; ++axis) {
          pull[axis] += cloud.weights[corner] * force[axis][cloud.cells[corner]];
        }
      }
      for (std::size_t axis = 0; axis < 3; ++axis) {
        particles.velocity[axis][i] += time * pull[axis];
      }
    }
  });
}

void drift(const Mesh& mesh, double time, Particles& particles) {
  const auto size = static_cast<double>(mesh.size());
  const double scale = time / mesh.cell();
  mesh.for_each_part([&](std::size_t begin, std::size_t end) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      auto& place = particles.position[axis];
      const auto& momentum = particles.velocity[axis];
      for (auto i = begin; i < end; ++i) place[i] = wrapped(place[i] + scale * momentum[i], size);
    }
  });
}

void scale_velocities(const Mesh& mesh, double factor, Particles& particles) {
  mesh.for_each_part([&](std::size_t begin, std::size_t end) {
    for (auto& field : particles.velocity) {
      for (auto i = begin; i < end; ++i) field[i] *= factor;
    }
  });
}

}  // namespace

void evolve(const Mesh& mesh, const Universe& universe, double from, double to, int steps,
            Particles& particles, const std::function<void(int)>& stepped) {
  constexpr double hubble_velocity = 100;  // H0 in km/s per Mpc/h
  scale_velocities(mesh, from / hubble_velocity, particles);
  Gravity gravity(mesh, universe);
  gravity.update(particles);
  const double ratio = std::log(to / from) / steps;
  for (int step = 0; step < steps; ++step) {
    const double begin = from * std::exp(ratio * step), end = from * std::exp(ratio * (step + 1));
    const double middle = std::sqrt(begin * end);
    kick(mesh, gravity.force(), kick_time(universe, begin, middle), particles);
    drift(mesh, drift_time(universe, begin, end), particles);
    gravity.update(particles);
    kick(mesh, gravity.force(), kick_time(universe, middle, end), particles);
    if (stepped) stepped(step + 1);
  }
  scale_velocities(mesh, hubble_velocity / to, particles);
}

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
