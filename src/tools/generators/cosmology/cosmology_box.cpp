#include "kolo/tools/generators.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "tools/generators/cosmology/matter.h"

namespace kolo::cosmology {

namespace {

// Simpson's rule.
template <typename Function>
double integrate(double from, double to, int intervals, Function function) {
  const double width = (to - from) / intervals;
  double sum = function(from) + function(to);
  for (int i = 1; i < intervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * function(from + i * width);
  return sum * width / 3;
}

// Integrates over ln a, in which these integrands are smooth.
template <typename Function>
double integrate_over_scale(double from, double to, Function function) {
  constexpr int intervals = 64;
  return integrate(std::log(from), std::log(to), intervals, [&](double log_a) {
    const double a = std::exp(log_a);
    return a * function(a);
  });
}

double square(double x) {
  return x * x;
}

double matter_fraction(const Universe& universe, double a) {
  return universe.matter / (a * a * a) / square(expansion_rate(universe, a));
}

// Growth over that of a universe of matter alone.
double growth_suppression(const Universe& universe, double a) {
  const double matter = matter_fraction(universe, a);
  const double dark_energy = universe.dark_energy / square(expansion_rate(universe, a));
  return 2.5 * matter /
         (std::pow(matter, 4. / 7) - dark_energy + (1 + matter / 2) * (1 + dark_energy / 70));
}

// The Fourier transform of a ball of radius 1.
double ball_window(double x) {
  if (x < 1e-3) return 1 - x * x / 10;
  return 3 * (std::sin(x) - x * std::cos(x)) / (x * x * x);
}

}  // namespace

double expansion_rate(const Universe& universe, double a) {
  return std::sqrt(universe.matter / (a * a * a) + universe.dark_energy);
}

double growth_factor(const Universe& universe, double a) {
  return a * growth_suppression(universe, a) / growth_suppression(universe, 1);
}

double growth_rate(const Universe& universe, double a) {
  return std::pow(matter_fraction(universe, a), .55);
}

double linear_velocity(const Universe& universe, double a) {
  return a * 100 * expansion_rate(universe, a) * growth_rate(universe, a);
}

double kick_time(const Universe& universe, double from, double to) {
  return integrate_over_scale(from, to,
                              [&](double a) { return 1 / (a * a * expansion_rate(universe, a)); });
}

double drift_time(const Universe& universe, double from, double to) {
  return integrate_over_scale(
      from, to, [&](double a) { return 1 / (a * a * a * expansion_rate(universe, a)); });
}

PowerSpectrum::PowerSpectrum(const Universe& universe) : universe_(universe) {
  const double h2 = square(universe.hubble);
  const double matter = universe.matter * h2, baryons = universe.baryons * h2;
  const double part = universe.baryons / universe.matter;
  sound_horizon_ = 44.5 * std::log(9.83 / matter) / std::sqrt(1 + 10 * std::pow(baryons, .75));
  suppression_ =
      1 - .328 * std::log(431 * matter) * part + .38 * std::log(22.3 * matter) * square(part);
  // sigma8 is the deviation within balls of 8 Mpc/h.
  const double variance = integrate(std::log(1e-5), std::log(1e3), 20'000, [&](double log_k) {
    const double k = std::exp(log_k);
    return k * k * k * (*this)(k)*square(ball_window(8 * k)) / (2 * square(std::numbers::pi));
  });
  amplitude_ = square(universe.sigma8) / variance;
}

double PowerSpectrum::transfer(double k) const {
  const double softening = square(square(.43 * k * universe_.hubble * sound_horizon_));
  const double shape =
      universe_.matter * universe_.hubble * (suppression_ + (1 - suppression_) / (1 + softening));
  const double q = k * square(universe_.background_temperature / 2.7) / shape;
  const double numerator = std::log(2 * std::numbers::e + 1.8 * q);
  return numerator / (numerator + (14.2 + 731 / (1 + 62.5 * q)) * q * q);
}

double PowerSpectrum::operator()(double k) const {
  return amplitude_ * std::pow(k, universe_.spectral_index) * square(transfer(k));
}

}  // namespace kolo::cosmology

namespace kolo {

namespace {

using namespace cosmology;

constexpr double start_scale_factor = 1. / 33;
constexpr int particle_mesh_steps = 20;
constexpr double cell_kpc = 78.125;  // comoving kpc/h

constexpr std::int64_t least_size = 16, most_size = 1024;
constexpr std::uint64_t most_seed = 1ULL << 53;  // what parameters can hold exactly

using Progress = std::function<void(double fraction, std::string_view phase)>;

// Share of the time before each stage, as measured.
constexpr double gravity_begins = .05, gravity_ends = .9, normalising_begins = .98;

Particles make_particles(const Mesh& mesh, const Universe& universe, std::uint64_t seed,
                         const Progress& progress) {
  auto density = linear_density(mesh, PowerSpectrum(universe),
                                growth_factor(universe, start_scale_factor), seed);
  progress(gravity_begins, "gravity");
  auto displacement = linear_displacement(mesh, density);
  density = {};
  auto particles = displaced_particles(mesh, universe, start_scale_factor, std::move(displacement));
  evolve(mesh, universe, start_scale_factor, box_scale_factor, particle_mesh_steps, particles,
         [&](int steps) {
           const auto part = static_cast<double>(steps) / particle_mesh_steps;
           progress(gravity_begins + (gravity_ends - gravity_begins) * part, "gravity");
         });
  return particles;
}

// Appends a channel to `channels`: normalized(i) of the cells that are kept.
template <typename Normalised>
void append(const CosmologyOptions& options, std::vector<float>& channels, Normalised normalised) {
  const auto size = static_cast<std::size_t>(options.size);
  const auto kept = options.crop > 0 ? static_cast<std::size_t>(options.crop) : size;
  for (std::size_t x = 0; x < kept; ++x) {
    for (std::size_t y = 0; y < kept; ++y) {
      for (std::size_t z = 0; z < kept; ++z) {
        const double value = normalised((x * size + y) * size + z);
        channels.push_back(static_cast<float>(std::clamp(value, -.999, .999)));
      }
    }
  }
}

constexpr double density_scale = 14, velocity_scale = 900, temperature_scale = 8,
                 temperature_shift = 1.5;

std::vector<float> normalised_matter(const CosmologyOptions& options, const Moments& moments,
                                     std::size_t kept_cells) {
  std::vector<float> channels;
  channels.reserve(nbody_channels * kept_cells);
  const auto& density = moments.density;
  append(options, channels, [&](auto i) { return std::log1p(density[i]) / density_scale; });
  for (const auto& momentum : moments.momentum) {
    append(options, channels,
           [&](auto i) { return density[i] > 0 ? momentum[i] / density[i] / velocity_scale : 0; });
  }
  return channels;
}

std::vector<float> normalised_gas(const CosmologyOptions& options, const Gas& gas,
                                  std::size_t kept_cells) {
  std::vector<float> channels;
  channels.reserve(hydro_channels * kept_cells);
  append(options, channels, [&](auto i) { return std::log(gas.density[i]) / density_scale; });
  for (const auto& velocity : gas.velocity) {
    append(options, channels, [&](auto i) { return velocity[i] / velocity_scale; });
  }
  append(options, channels, [&](auto i) {
    return std::log(gas.temperature[i]) / temperature_scale - temperature_shift;
  });
  return channels;
}

std::vector<std::pair<std::string, double>> parameters_of(const CosmologyOptions& options,
                                                          const Universe& universe) {
  return {{"seed", static_cast<double>(options.seed)},
          {"generated_size", static_cast<double>(options.size)},
          {"cell_kpc_per_h", cell_kpc},
          {"redshift", box_redshift},
          {"particle_mesh_steps", particle_mesh_steps},
          {"omega_matter", universe.matter},
          {"omega_lambda", universe.dark_energy},
          {"omega_baryon", universe.baryons},
          {"h", universe.hubble},
          {"spectral_index", universe.spectral_index},
          {"sigma8", universe.sigma8}};
}

}  // namespace

void check_cosmology_options(const CosmologyOptions& options) {
  if (options.size < least_size || options.size > most_size || options.size % 2 != 0) {
    throw InputError(
        fmt::format("data: a box of {} cells per edge: expected an even number, {} to {}",
                    options.size, least_size, most_size));
  }
  if (options.crop < 0 || options.crop > options.size) {
    throw InputError(
        fmt::format("data: {} cells per edge cut out of {}: expected 1 to {}, or 0 for all",
                    options.crop, options.size, options.size));
  }
  if (options.seed > most_seed) {
    throw InputError(fmt::format("data: seed {}: expected 0 to {}", options.seed, most_seed));
  }
  if (options.threads < 1) {
    throw InputError(fmt::format("data: {} threads: expected at least 1", options.threads));
  }
}

SimulationBox make_cosmology_box(const CosmologyOptions& options, const Progress& progress) {
  check_cosmology_options(options);
  progress(0, "initial conditions");
  const Universe universe;
  const double kiloparsecs = 1000;
  const Mesh mesh(options.size, static_cast<double>(options.size) * cell_kpc / kiloparsecs,
                  options.threads);
  SimulationBox box;
  box.size = options.crop > 0 ? options.crop : options.size;
  box.parameters = parameters_of(options, universe);
  const auto kept_cells = static_cast<std::size_t>(box.size * box.size * box.size);

  auto moments = deposit_moments(mesh, make_particles(mesh, universe, options.seed, progress));
  progress(gravity_ends, "gas");
  box.nbody = normalised_matter(options, moments, kept_cells);
  const auto gas = make_gas(mesh, universe, std::move(moments));
  progress(normalising_begins, "gas");
  box.hydro = normalised_gas(options, gas, kept_cells);
  progress(1, "gas");
  return box;
}

}  // namespace kolo
