#include "tools/generators/cosmology/matter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kolo/base/random.h"

namespace kolo::cosmology {

Field white_noise(const Mesh& mesh, std::uint64_t seed) {
  // Keeps these numbers independent of those that other generators and training draw from a seed.
  constexpr std::uint32_t stream = 0xC05B0DE1;
  Field noise(mesh.size());
  mesh.for_each_range([&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) noise[i] = CounterRandom(seed, stream, i).normal();
  });
  return noise;
}

Modes linear_density(const Mesh& mesh, const PowerSpectrum& power, double growth,
                     std::uint64_t seed) {
  Modes modes = mesh.forward(white_noise(mesh, seed));
  const double density_of_cells = static_cast<double>(mesh.cells()) / std::pow(mesh.length(), 3);
  mesh.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
    modes[i] *=
        wave.square > 0 ? growth * std::sqrt(power(std::sqrt(wave.square)) * density_of_cells) : 0;
  });
  return modes;
}

VectorField linear_displacement(const Mesh& mesh, const Modes& density) {
  VectorField displacement;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    Modes modes(mesh.size());  // i k density_k / k^2
    mesh.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
      if (wave.square == 0) return;
      const double factor = wave.odd[axis] / wave.square;
      modes[i] = {-factor * density[i].imag(), factor * density[i].real()};
    });
    displacement[axis] = mesh.inverse(std::move(modes));
  }
  return displacement;
}

double wrapped(double position, double size) {
  return position - size * std::floor(position / size);
}

Particles displaced_particles(const Mesh& mesh, const Universe& universe, double a,
                              VectorField displacement) {
  const auto size = static_cast<std::size_t>(mesh.size());
  const double velocity = linear_velocity(universe, a);
  Particles particles{.position = {}, .velocity = std::move(displacement)};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    auto& place = particles.position[axis] = Field(mesh.size());
    auto& speed = particles.velocity[axis];
    const auto stride = axis == 0 ? size * size : axis == 1 ? size : 1;
    mesh.for_each_range([&](std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) {
        const auto start = static_cast<double>(i / stride % size);
        place[i] = wrapped(start + speed[i] / mesh.cell(), static_cast<double>(size));
        speed[i] *= velocity;
      }
    });
  }
  return particles;
}

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

// From here to the end of evolve(), velocities are momenta a^2 dx/dt in units of H0 Mpc/h.
void kick(const Mesh& mesh, const VectorField& force, double time, Particles& particles) {
  const auto& [x, y, z] = particles.position;
  mesh.for_each_range([&](std::size_t begin, std::size_t end) {
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
  mesh.for_each_range([&](std::size_t begin, std::size_t end) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      auto& place = particles.position[axis];
      const auto& momentum = particles.velocity[axis];
      for (auto i = begin; i < end; ++i) place[i] = wrapped(place[i] + scale * momentum[i], size);
    }
  });
}

void scale_velocities(const Mesh& mesh, double factor, Particles& particles) {
  mesh.for_each_range([&](std::size_t begin, std::size_t end) {
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

// Both deposits run on one thread: sums must be formed in one order.
void deposit_density(const Mesh& mesh, const Particles& particles, Field& density) {
  std::ranges::fill(density.values(), 0.);
  const auto& [x, y, z] = particles.position;
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const Cloud cloud(mesh.size(), x[i], y[i], z[i]);
    for (std::size_t corner = 0; corner < 8; ++corner) {
      density[cloud.cells[corner]] += cloud.weights[corner];
    }
  }
}

Moments deposit_moments(const Mesh& mesh, const Particles& particles) {
  const auto n = mesh.size();
  Moments moments{Field(n), {Field(n), Field(n), Field(n)}, Field(n)};
  const auto& [x, y, z] = particles.position;
  const auto& [vx, vy, vz] = particles.velocity;
  for (std::size_t i = 0; i < mesh.cells(); ++i) {
    const Cloud cloud(n, x[i], y[i], z[i]);
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

namespace {

constexpr double molecular_weight = .59;    // of ionised hydrogen and helium, in proton masses
constexpr double mean_temperature = 1.2e4;  // K, at the mean density
constexpr double adiabatic_index = 1.45;    // T ~ density^(index - 1)
constexpr double cooling_density = 30;      // above which gas no longer gets warmer
constexpr double least_density = 1e-4;
constexpr double dispersion_fraction = .25;  // of the random motions' energy that heats
constexpr double shock_length = 2.5;         // cells that a shock is spread over

constexpr double boltzmann = 1.380649e-23;      // J/K
constexpr double proton_mass = 1.67262192e-27;  // kg
constexpr double particle_mass = molecular_weight * proton_mass;

// Kelvin per (km/s)^2 of a velocity dispersion: m / k.
constexpr double dispersion_heat = particle_mass / boltzmann * 1e6;
// Kelvin per (km/s)^2 of a strong shock's speed: 3 m / 16 k.
constexpr double shock_heat = 3. / 16 * dispersion_heat;

void smooth(const Mesh& mesh, double wave_number, Field& field) {
  Modes modes = mesh.forward(field);
  const double scale = 1 / (wave_number * wave_number);
  mesh.for_each_mode(
      [&](std::size_t i, const Mesh::Wave& wave) { modes[i] *= std::exp(-wave.square * scale); });
  mesh.inverse(modes, field);
}

// Raises empty cells to the least density, and scales the mean to 1 again.
void bound_density(Field& density) {
  double sum = 0;
  for (double& value : density.values()) sum += value = std::max(value, least_density);
  const double scale = static_cast<double>(density.values().size()) / sum;
  for (double& value : density.values()) value *= scale;
}

}  // namespace

double filter_wave_number(const Universe& universe) {
  constexpr double filter_over_jeans = 1.5;
  const double sound_speed = std::sqrt(5. / 3 * mean_temperature / dispersion_heat);  // km/s
  const double jeans = 100 * std::sqrt(1.5 * universe.matter * (1 + box_redshift)) / sound_speed;
  return filter_over_jeans * jeans;
}

double quiet_temperature(double density) {
  const double part = density / cooling_density;
  return mean_temperature * std::pow(density / std::sqrt(1 + part * part), adiabatic_index - 1);
}

Gas make_gas(const Mesh& mesh, const Universe& universe, Moments&& moments) {
  const double wave_number = filter_wave_number(universe);
  for (auto* const field : {&moments.density, &moments.momentum[0], &moments.momentum[1],
                            &moments.momentum[2], &moments.square_speed}) {
    smooth(mesh, wave_number, *field);
  }
  Gas gas{std::move(moments.density), std::move(moments.momentum), std::move(moments.square_speed)};
  bound_density(gas.density);
  for (auto& field : gas.velocity) {
    for (std::size_t i = 0; i < mesh.cells(); ++i) field[i] /= gas.density[i];
  }
  const Field expansion = divergence(mesh, gas.velocity);
  const double length = shock_length * mesh.cell();
  mesh.for_each_range([&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      double& temperature = gas.temperature[i];
      double square_speed = 0;
      for (const auto& field : gas.velocity) square_speed += field[i] * field[i];
      const double dispersion = std::max(0., temperature / gas.density[i] - square_speed) / 3;
      const double shock = length * std::max(0., -expansion[i]);
      temperature = quiet_temperature(gas.density[i]);
      temperature +=
          shock_heat * shock * shock + dispersion_fraction * dispersion_heat * dispersion;
    }
  });
  return gas;
}

}  // namespace kolo::cosmology
