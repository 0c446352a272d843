#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

// Channels of a box: dark matter (density and velocity) and gas (the same, and temperature).
inline constexpr std::int64_t nbody_channels = 4, hydro_channels = 5;

// A periodic cube of simulated universe, normalised as networks see it: ln(1 + rho) / 14 (gas: ln
// rho / 14) with rho in units of its mean, v / (900 km/s), ln(T / K) / 8 - 1.5.
struct SimulationBox {
  std::int64_t size = 0;     // cells an edge
  std::vector<float> nbody;  // [4, size, size, size]: rho, vx, vy, vz of dark matter
  std::vector<float> hydro;  // [5, size, size, size]: rho, vx, vy, vz, T of gas
  // How it was made, written beside the fields: the seed, the cosmology, the resolution.
  std::vector<std::pair<std::string, double>> parameters;
};

}  // namespace kolo
