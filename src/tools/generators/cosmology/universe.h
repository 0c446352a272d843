#pragma once

// The universe that boxes are made in: its densities and how structure grows in it. Lengths are
// comoving Mpc/h, wave numbers h/Mpc, `a` is the scale factor (1 now), times are in units of the
// Hubble time.
namespace kolo::cosmology {

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

// How much linear structure has grown, 1 now. Source: Carroll, Press and Turner 1992, Annual Review
// of Astronomy and Astrophysics 30, equation 29; within some .1 %.
[[nodiscard]] double growth_factor(const Universe& universe, double a);

// d ln(growth) / d ln(a), by Peebles' power law.
[[nodiscard]] double growth_rate(const Universe& universe, double a);

// Peculiar velocity per displacement that grows linearly, km/s per Mpc/h: a H f.
[[nodiscard]] double linear_velocity(const Universe& universe, double a);

// How much momentum a^2 dx/dt a constant force adds between two scale factors, and how far a
// constant momentum carries: the integrals of da / (a^2 E) and da / (a^3 E). Source: Quinn et al.
// 1997, astro-ph/9710043.
[[nodiscard]] double kick_time(const Universe& universe, double from, double to);
[[nodiscard]] double drift_time(const Universe& universe, double from, double to);

// The power of linear density fluctuations now, (Mpc/h)^3. Source of its shape: Eisenstein and Hu
// 1998, ApJ 496, equations 26 and 28 to 31 (without wiggles).
class PowerSpectrum {
 public:
  explicit PowerSpectrum(const Universe& universe);

  // At wave number k > 0.
  [[nodiscard]] double operator()(double k) const;
  [[nodiscard]] double amplitude() const { return amplitude_; }

 private:
  [[nodiscard]] double transfer(double k) const;

  Universe universe_;
  double sound_horizon_ = 0;  // Mpc
  double suppression_ = 0;    // of the shape's scale by baryons, on small scales
  double amplitude_ = 1;
};

}  // namespace kolo::cosmology
