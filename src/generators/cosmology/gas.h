#pragma once

#include "generators/cosmology/gravity.h"
#include "generators/cosmology/universe.h"

// The gas between galaxies at redshift 3, from the matter it falls with.
namespace kolo::cosmology {

struct Gas {
  Field density;         // in units of its mean
  VectorField velocity;  // km/s
  Field temperature;     // K
};

// Where pressure stops gas from falling with the matter, h/Mpc: its density has the matter's power
// times exp(-2 k^2 / filter^2).
[[nodiscard]] double filter_wave_number(const Universe& universe);

// Temperature of gas that nothing but the ultraviolet background heats, K.
[[nodiscard]] double quiet_temperature(double density);

// Takes the moments apart, to spare memory. `heating`: shocks where gas runs together and the
// random motions within what pressure smooths warm it.
[[nodiscard]] Gas make_gas(const Mesh& mesh, const Universe& universe, Moments&& moments,
                           bool heating);

// Makes temperature unpredictable: times exp(deviation g), g a normal number of each cell's own.
void scatter_temperature(const Mesh& mesh, double deviation, std::uint64_t seed,
                         Field& temperature);

}  // namespace kolo::cosmology
