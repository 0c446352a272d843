#include "generators/cosmology/initial_conditions.h"

#include <cmath>
#include <utility>

#include "kolo/base/random.h"

namespace kolo::cosmology {

namespace {

// Sets the numbers apart from those that other generators and training draw with the same seed.
constexpr std::uint32_t initial_density_stream = 0xC05B0DE1;

std::complex<double> times_i(double factor, std::complex<double> mode) {
  return {-factor * mode.imag(), factor * mode.real()};
}

// The field with amplitudes i k_axis source_k / k^2 * factor.
Field inverse_gradient(const Mesh& mesh, const Modes& source, std::size_t axis, double factor) {
  Modes modes(mesh.size());
  mesh.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
    if (wave.square > 0) modes[i] = times_i(factor * wave.odd[axis] / wave.square, source[i]);
  });
  return mesh.inverse(std::move(modes));
}

VectorField inverse_gradients(const Mesh& mesh, const Modes& source, double factor) {
  VectorField fields;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    fields[axis] = inverse_gradient(mesh, source, axis, factor);
  }
  return fields;
}

// The second derivative along two axes of the potential phi_k = -density_k / k^2.
Field tide(const Mesh& mesh, const Modes& density, std::size_t first, std::size_t second) {
  Modes modes(mesh.size());
  mesh.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
    const double product =
        first == second ? wave.k[first] * wave.k[first] : wave.odd[first] * wave.odd[second];
    if (wave.square > 0) modes[i] = product / wave.square * density[i];
  });
  return mesh.inverse(std::move(modes));
}

}  // namespace

Field white_noise(const Mesh& mesh, std::uint64_t seed, std::uint32_t stream) {
  Field noise(mesh.size());
  mesh.for_each_part([&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) noise[i] = CounterRandom(seed, stream, i).normal();
  });
  return noise;
}

Modes linear_density(const Mesh& mesh, const PowerSpectrum& power, double growth,
                     std::uint64_t seed) {
  Modes modes = mesh.forward(white_noise(mesh, seed, initial_density_stream));
  const double density_of_cells = static_cast<double>(mesh.cells()) / std::pow(mesh.length(), 3);
  mesh.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
    modes[i] *=
        wave.square > 0 ? growth * std::sqrt(power(std::sqrt(wave.square)) * density_of_cells) : 0;
  });
  return modes;
}

void truncate(const Mesh& mesh, Modes& density, double wave_number) {
  const double scale = 1 / (2 * wave_number * wave_number);
  mesh.for_each_mode(
      [&](std::size_t i, const Mesh::Wave& wave) { density[i] *= std::exp(-wave.square * scale); });
}

VectorField first_order_displacement(const Mesh& mesh, const Modes& density) {
  return inverse_gradients(mesh, density, 1);
}

VectorField second_order_displacement(const Mesh& mesh, const Modes& density) {
  // S = sum over i < j of phi_ii phi_jj - phi_ij^2.
  Field source(mesh.size());
  {
    const Field xx = tide(mesh, density, 0, 0), yy = tide(mesh, density, 1, 1),
                zz = tide(mesh, density, 2, 2);
    for (std::size_t i = 0; i < mesh.cells(); ++i) {
      source[i] = xx[i] * yy[i] + (xx[i] + yy[i]) * zz[i];
    }
  }
  for (const auto& [first, second] : {std::pair(0U, 1U), std::pair(0U, 2U), std::pair(1U, 2U)}) {
    const Field mixed = tide(mesh, density, first, second);
    for (std::size_t i = 0; i < mesh.cells(); ++i) source[i] -= mixed[i] * mixed[i];
  }
  return inverse_gradients(mesh, mesh.forward(source), 3. / 7);
}

double wrapped(double position, double size) {
  return position - size * std::floor(position / size);
}

Particles displaced_particles(const Mesh& mesh, const Universe& universe, double a,
                              VectorField displacement, const VectorField& second) {
  const auto size = static_cast<std::size_t>(mesh.size());
  const double velocity = linear_velocity(universe, a);
  Particles particles{.position = {}, .velocity = std::move(displacement)};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    auto& place = particles.position[axis] = Field(mesh.size());
    auto& speed = particles.velocity[axis];
    const auto stride = axis == 0 ? size * size : axis == 1 ? size : 1;
    mesh.for_each_part([&](std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) {
        const double more = second[axis].size() > 0 ? second[axis][i] : 0;
        const auto start = static_cast<double>(i / stride % size);
        place[i] = wrapped(start + (speed[i] + more) / mesh.cell(), static_cast<double>(size));
        // The second order grows as the square of the first, so twice as fast.
        speed[i] = velocity * (speed[i] + 2 * more);
      }
    });
  }
  return particles;
}

}  // namespace kolo::cosmology
