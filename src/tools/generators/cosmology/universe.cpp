#include "tools/generators/cosmology/universe.h"

#include <cmath>
#include <numbers>

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

// The integral over ln a, in which these integrands are smooth.
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

double matter_part(const Universe& universe, double a) {
  return universe.matter / (a * a * a) / square(expansion_rate(universe, a));
}

// Growth over that of a universe of matter alone.
double growth_suppression(const Universe& universe, double a) {
  const double matter = matter_part(universe, a);
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
  return std::pow(matter_part(universe, a), .55);
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
