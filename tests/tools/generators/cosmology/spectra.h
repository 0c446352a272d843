#pragma once

#include <cmath>

#include "tools/generators/cosmology/matter.h"
#include "tools/generators/cosmology/mesh.h"

namespace kolo::cosmology::testing {

// The mean of value(index, k) over the modes with from <= |k| < to. On a mesh of one thread.
template <typename Value>
double mean_over_modes(const Mesh& mesh, double from, double to, Value value) {
  double sum = 0, count = 0;
  mesh.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
    const double k = std::sqrt(wave.square);
    if (k < from || k >= to) return;
    sum += value(i, k);
    count += 1;
  });
  return sum / count;
}

inline double mean_power(const Mesh& mesh, const Modes& modes, double from, double to) {
  return mean_over_modes(mesh, from, to,
                         [&](std::size_t i, double) { return std::norm(modes[i]); });
}

// The slope of the line y = slope x through two fields of mean 0.
inline double slope(const Field& x, const Field& y) {
  double xy = 0, xx = 0;
  for (std::size_t i = 0; i < x.values().size(); ++i) {
    xy += x[i] * y[i];
    xx += x[i] * x[i];
  }
  return xy / xx;
}

inline double mean(const Field& field) {
  double sum = 0;
  for (const double value : field.values()) sum += value;
  return sum / static_cast<double>(field.values().size());
}

}  // namespace kolo::cosmology::testing
