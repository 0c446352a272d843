#include "generators/cosmology/gas.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kolo::cosmology {

namespace {

constexpr std::uint32_t scatter_stream = 0xC05B0DE2;

constexpr double molecular_weight = .59;    // of ionised hydrogen and helium, in proton masses
constexpr double mean_temperature = 1.2e4;  // K, at the mean density
constexpr double adiabatic_index = 1.45;    // T ~ density^(index - 1)
constexpr double cooling_density = 30;      // above which gas no longer gets warmer
constexpr double least_density = 1e-4;
constexpr double dispersion_part = .25;  // of the random motions' energy that heats
constexpr double shock_length = 2.5;     // cells that a shock is spread over

constexpr double boltzmann = 1.380649e-23;      // J/K
constexpr double proton_mass = 1.67262192e-27;  // kg
constexpr double particle_mass = molecular_weight * proton_mass;

// Kelvin per (km/s)^2 of a velocity dispersion: m / k.
constexpr double dispersion_heat = particle_mass / boltzmann * 1e6;
// Of a strong shock's speed: 3 m / 16 k.
constexpr double shock_heat = 3. / 16 * dispersion_heat;

void smooth(const Mesh& mesh, double wave_number, Field& field) {
  Modes modes = mesh.forward(field);
  const double scale = 1 / (wave_number * wave_number);
  mesh.for_each_mode(
      [&](std::size_t i, const Mesh::Wave& wave) { modes[i] *= std::exp(-wave.square * scale); });
  mesh.inverse(modes, field);
}

// No cell is empty, and the mean is 1 again.
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

Gas make_gas(const Mesh& mesh, const Universe& universe, Moments&& moments, bool heating) {
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
  const Field expansion = heating ? divergence(mesh, gas.velocity) : Field();
  const double length = shock_length * mesh.cell();
  mesh.for_each_part([&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      double& temperature = gas.temperature[i];
      double square_speed = 0;
      for (const auto& field : gas.velocity) square_speed += field[i] * field[i];
      const double dispersion = std::max(0., temperature / gas.density[i] - square_speed) / 3;
      temperature = quiet_temperature(gas.density[i]);
      if (!heating) continue;
      const double shock = length * std::max(0., -expansion[i]);
      temperature += shock_heat * shock * shock + dispersion_part * dispersion_heat * dispersion;
    }
  });
  return gas;
}

void scatter_temperature(const Mesh& mesh, double deviation, std::uint64_t seed,
                         Field& temperature) {
  const Field noise = white_noise(mesh, seed, scatter_stream);
  for (std::size_t i = 0; i < mesh.cells(); ++i) temperature[i] *= std::exp(deviation * noise[i]);
}

}  // namespace kolo::cosmology
