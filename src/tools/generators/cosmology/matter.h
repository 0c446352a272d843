#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "tools/generators/cosmology/mesh.h"

// Matter: particles placed by perturbation theory, their fall through each other's gravity, and the
// gas that falls with them.
namespace kolo::cosmology {

// Densities and growth of the universe that boxes are made in. Lengths are comoving Mpc/h, wave
// numbers h/Mpc, `a` is the scale factor (1 now), times are in units of the Hubble time.
struct Universe {
  double matter = .31;       // densities in units of the critical one
  double dark_energy = .69;  //
  double baryons = .0487;    // a part of `matter`
  double hubble = .675;      // in 100 km/s/Mpc
  double spectral_index = .965;
  double sigma8 = .82;
  double background_temperature = 2.7255;  // K
};

// The box's redshift and scale factor.
inline constexpr double box_redshift = 3, box_scale_factor = 1 / (1 + box_redshift);

// The expansion rate in units of today's.
[[nodiscard]] double expansion_rate(const Universe& universe, double a);

// Growth of linear structure, 1 now. Source: Carroll, Press and Turner 1992, Annual Review
// of Astronomy and Astrophysics 30, equation 29; within some .1 %.
[[nodiscard]] double growth_factor(const Universe& universe, double a);

// d ln(growth) / d ln(a), by Peebles' power law.
[[nodiscard]] double growth_rate(const Universe& universe, double a);

// Peculiar velocity per displacement that grows linearly, km/s per Mpc/h: a H f.
[[nodiscard]] double linear_velocity(const Universe& universe, double a);

// Momentum a^2 dx/dt that a constant force adds between two scale factors, and the distance that a
// constant momentum carries a particle: the integrals of da / (a^2 E) and da / (a^3 E). Source:
// Quinn et al. 1997, astro-ph/9710043.
[[nodiscard]] double kick_time(const Universe& universe, double from, double to);
[[nodiscard]] double drift_time(const Universe& universe, double from, double to);

// The power of linear density fluctuations now, (Mpc/h)^3. Source of its shape: Eisenstein and Hu
// 1998, ApJ 496, equations 26 and 28 to 31 (without wiggles).
class PowerSpectrum {
 public:
  explicit PowerSpectrum(const Universe& universe);

  // At wave number k > 0.
  [[nodiscard]] double operator()(double k) const;

 private:
  [[nodiscard]] double transfer(double k) const;

  Universe universe_;
  double sound_horizon_ = 0;  // Mpc
  double suppression_ = 0;    // of the shape's scale by baryons, on small scales
  double amplitude_ = 1;
};

// Independent standard normal numbers, each a function of seed and cell alone.
[[nodiscard]] Field white_noise(const Mesh& mesh, std::uint64_t seed);

// A Gaussian random field with the linear power spectrum, times `growth`; its mean is 0.
[[nodiscard]] Modes linear_density(const Mesh& mesh, const PowerSpectrum& power, double growth,
                                   std::uint64_t seed);

// The displacement psi with density = -div psi, Mpc/h. Source: Zel'dovich 1970, A&A 5.
[[nodiscard]] VectorField linear_displacement(const Mesh& mesh, const Modes& density);

// Particles that began one per cell, in the order of the cells.
struct Particles {
  VectorField position;  // in cells, within [0, size]
  VectorField velocity;  // km/s, peculiar
};

// Moves them from their cells by `displacement` at scale factor a.
[[nodiscard]] Particles displaced_particles(const Mesh& mesh, const Universe& universe, double a,
                                            VectorField displacement);

// The place within a periodic box of `size` cells.
[[nodiscard]] double wrapped(double position, double size);

// Lets particles fall through each other's gravity from scale factor `from` to `to`, in kick-drift-
// kick steps uniform in ln a; forces come from a mesh of one cell a particle. `stepped` is called
// with the steps done after each. Sources: Hockney and Eastwood 1988 (particle-mesh forces); Quinn
// et al. 1997 (the steps).
void evolve(const Mesh& mesh, const Universe& universe, double from, double to, int steps,
            Particles& particles, const std::function<void(int)>& stepped);

// Clouds in cells: each particle is a cloud as large as a cell, shared by the cells it lies in.
// Source: Hockney and Eastwood, "Computer simulation using particles", 1988, 5-3.

// The eight cells that a particle at a place within [0, size] (in cells) has a part in.
struct Cloud {
  Cloud(std::int64_t size, double x, double y, double z);

  std::array<std::size_t, 8> cells;
  std::array<double, 8> weights;  // their sum is 1
};

// Density in units of its mean.
void deposit_density(const Mesh& mesh, const Particles& particles, Field& density);

// Sums that particles carry into cells.
struct Moments {
  Field density;         // in units of its mean
  VectorField momentum;  // density times velocity, km/s
  Field square_speed;    // density times the mean of velocity squared, (km/s)^2
};
[[nodiscard]] Moments deposit_moments(const Mesh& mesh, const Particles& particles);

inline Cloud::Cloud(std::int64_t size, double x, double y, double z) {
  const auto n = static_cast<std::size_t>(size);
  std::array<std::size_t, 3> low{}, high{};
  std::array<double, 3> part{};
  const std::array place = {x, y, z};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    low[axis] = static_cast<std::size_t>(place[axis]);
    part[axis] = place[axis] - static_cast<double>(low[axis]);
    if (low[axis] >= n) low[axis] -= n;  // rounded up to the box's end
    high[axis] = low[axis] + 1 == n ? 0 : low[axis] + 1;
  }
  for (std::size_t corner = 0; corner < 8; ++corner) {
    const bool far_x = (corner & 4) != 0, far_y = (corner & 2) != 0, far_z = (corner & 1) != 0;
    cells[corner] = ((far_x ? high[0] : low[0]) * n + (far_y ? high[1] : low[1])) * n +
                    (far_z ? high[2] : low[2]);
    weights[corner] = (far_x ? part[0] : 1 - part[0]) * (far_y ? part[1] : 1 - part[1]) *
                      (far_z ? part[2] : 1 - part[2]);
  }
}

// The gas between galaxies at redshift 3, from the matter it falls with.

struct Gas {
  Field density;         // in units of its mean
  VectorField velocity;  // km/s
  Field temperature;     // K
};

// Wave number from which pressure stops gas from falling with the matter, h/Mpc: its density has
// the matter's power times exp(-2 k^2 / filter^2).
[[nodiscard]] double filter_wave_number(const Universe& universe);

// Temperature of gas that nothing but the ultraviolet background heats, K.
[[nodiscard]] double quiet_temperature(double density);

// Reuses the moments' memory. Gas is warmed by shocks where it runs together, and by the random
// motions on scales that pressure smooths.
[[nodiscard]] Gas make_gas(const Mesh& mesh, const Universe& universe, Moments&& moments);

}  // namespace kolo::cosmology
