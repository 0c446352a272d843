#include "kolo/tools/cosmology_box.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "tools/generators/cosmology/matter.h"
#include "tools/generators/cosmology/universe.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

using namespace cosmology;

constexpr double start_scale_factor = 1. / 33;
constexpr int particle_mesh_steps = 20;
constexpr double second_order_truncation = 5;  // h/Mpc: beyond, streams would have crossed

constexpr std::int64_t least_size = 16, most_size = 1024;
constexpr double least_cell = 1, most_cell = 10'000;
constexpr std::uint64_t most_seed = 1ULL << 53;  // what parameters can hold exactly
constexpr double most_scatter = 10;

class Progress {
 public:
  explicit Progress(const std::function<void(double, std::string_view)>& show) : show_(show) {}
  void operator()(double fraction, std::string_view stage) const {
    if (show_) show_(fraction, stage);
  }

 private:
  const std::function<void(double, std::string_view)>& show_;
};

// Where progress stands before each stage, as measured.
constexpr double gravity_begins = .05, gravity_ends = .9, normalising_begins = .98;

Particles make_particles(const Mesh& mesh, const Universe& universe,
                         const CosmologyOptions& options, const Progress& progress) {
  const PowerSpectrum power(universe);
  const bool second_order = options.method == GravityMethod::second_order;
  const double begin = second_order ? box_scale_factor : start_scale_factor;
  auto density = linear_density(mesh, power, growth_factor(universe, begin), options.seed);
  if (second_order) truncate(mesh, density, second_order_truncation);
  progress(gravity_begins, "gravity");
  auto displacement = first_order_displacement(mesh, density);
  const auto second = second_order ? second_order_displacement(mesh, density) : VectorField();
  density = {};
  auto particles = displaced_particles(mesh, universe, begin, std::move(displacement), second);
  if (second_order) return particles;
  evolve(mesh, universe, begin, box_scale_factor, particle_mesh_steps, particles, [&](int steps) {
    progress(gravity_begins + (gravity_ends - gravity_begins) * steps / particle_mesh_steps,
             "gravity");
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
  const bool second_order = options.method == GravityMethod::second_order;
  return {{"seed", static_cast<double>(options.seed)},
          {"generated_size", static_cast<double>(options.size)},
          {"cell_kpc_per_h", options.cell},
          {"redshift", box_redshift},
          {"particle_mesh_steps", second_order ? 0 : particle_mesh_steps},
          {"heating", options.heating ? 1 : 0},
          {"temperature_scatter", options.temperature_scatter},
          {"omega_matter", universe.matter},
          {"omega_lambda", universe.dark_energy},
          {"omega_baryon", universe.baryons},
          {"h", universe.hubble},
          {"spectral_index", universe.spectral_index},
          {"sigma8", universe.sigma8}};
}

}  // namespace

bool is_cosmology_built() {
  return true;
}

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
  if (!(options.cell >= least_cell && options.cell <= most_cell)) {
    throw InputError(fmt::format("data: cells of {} kpc/h: expected {} to {}", options.cell,
                                 least_cell, most_cell));
  }
  if (options.seed > most_seed) {
    throw InputError(fmt::format("data: seed {}: expected 0 to {}", options.seed, most_seed));
  }
  if (!(options.temperature_scatter >= 0 && options.temperature_scatter <= most_scatter)) {
    throw InputError(fmt::format("data: a temperature scatter of {}: expected 0 to {}",
                                 options.temperature_scatter, most_scatter));
  }
  if (options.threads < 1) {
    throw InputError(fmt::format("data: {} threads: expected at least 1", options.threads));
  }
}

std::uint64_t cosmology_box_memory(const CosmologyOptions& options) {
  // Positions, velocities, forces, their modes, density and its modes.
  constexpr std::uint64_t fields = 3 + 3 + 3 + 3 + 1 + 1;
  const auto size = static_cast<std::uint64_t>(options.size);
  return checked_multiply(checked_multiply(checked_multiply(size, size), size + 2),
                          fields * sizeof(double));
}

SimulationBox make_cosmology_box(
    const CosmologyOptions& options,
    const std::function<void(double fraction, std::string_view stage)>& show_progress) {
  check_cosmology_options(options);
  const Progress progress(show_progress);
  progress(0, "initial conditions");
  const Universe universe;
  const double kiloparsecs = 1000;
  const Mesh mesh(options.size, static_cast<double>(options.size) * options.cell / kiloparsecs,
                  options.threads);
  SimulationBox box;
  box.size = options.crop > 0 ? options.crop : options.size;
  box.parameters = parameters_of(options, universe);
  const auto kept_cells = static_cast<std::size_t>(box.size * box.size * box.size);

  auto moments = deposit_moments(mesh, make_particles(mesh, universe, options, progress));
  progress(gravity_ends, "gas");
  box.nbody = normalised_matter(options, moments, kept_cells);
  auto gas = make_gas(mesh, universe, std::move(moments), options.heating);
  if (options.temperature_scatter > 0) {
    scatter_temperature(mesh, options.temperature_scatter, options.seed, gas.temperature);
  }
  progress(normalising_begins, "gas");
  box.hydro = normalised_gas(options, gas, kept_cells);
  progress(1, "gas");
  return box;
}

}  // namespace kolo
