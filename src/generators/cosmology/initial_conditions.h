#pragma once

#include <cstdint>

#include "generators/cosmology/mesh.h"
#include "generators/cosmology/universe.h"

// How the universe began, and where particles go from there by perturbation theory.
namespace kolo::cosmology {

// Independent standard normal numbers, each a function of seed, stream and cell alone.
[[nodiscard]] Field white_noise(const Mesh& mesh, std::uint64_t seed, std::uint32_t stream);

// A Gaussian random field with the linear power spectrum, times `growth`; its mean is 0.
[[nodiscard]] Modes linear_density(const Mesh& mesh, const PowerSpectrum& power, double growth,
                                   std::uint64_t seed);

// Takes out what is smaller than 1 / wave_number: times exp(-k^2 / 2 wave_number^2).
void truncate(const Mesh& mesh, Modes& density, double wave_number);

// The displacement psi with density = -div psi, Mpc/h. Source: Zel'dovich 1970, A&A 5.
[[nodiscard]] VectorField first_order_displacement(const Mesh& mesh, const Modes& density);

// What second-order Lagrangian perturbation theory adds to it. Source: Bouchet et al. 1995, A&A
// 296; the sign follows from a collapsing region's collapsing faster.
[[nodiscard]] VectorField second_order_displacement(const Mesh& mesh, const Modes& density);

// Particles that began one per cell, in the order of the cells.
struct Particles {
  VectorField position;  // in cells, within [0, size]
  VectorField velocity;  // km/s, peculiar
};

// Moves them from their cells by `displacement` + `second` (may be empty) at scale factor a.
[[nodiscard]] Particles displaced_particles(const Mesh& mesh, const Universe& universe, double a,
                                            VectorField displacement, const VectorField& second);

// The place within a periodic box of `size` cells.
[[nodiscard]] double wrapped(double position, double size);

}  // namespace kolo::cosmology
