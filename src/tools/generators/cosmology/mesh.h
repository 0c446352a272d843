#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kolo/base/checked.h"
#include "tools/generators/generator_tools.h"

namespace kolo::cosmology {

// A three-dimensional array, the last index fastest; zeros at first.
template <typename Value>
class Cube {
 public:
  Cube() = default;
  // `size`: cells per edge of the field; `last`: length of the last index.
  Cube(std::int64_t size, std::int64_t last)
      : size_(size),
        values_(narrow<std::size_t>(checked_multiply(checked_multiply(size, size), last))) {}

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::span<Value> values() { return values_; }
  [[nodiscard]] std::span<const Value> values() const { return values_; }
  [[nodiscard]] Value& operator[](std::size_t index) { return values_[index]; }
  [[nodiscard]] const Value& operator[](std::size_t index) const { return values_[index]; }

 private:
  std::int64_t size_ = 0;
  std::vector<Value> values_;
};

// A real field on size^3 cells.
class Field : public Cube<double> {
 public:
  Field() = default;
  explicit Field(std::int64_t size) : Cube(size, size) {}
};

// Fourier amplitudes of a field: field(x) = sum over k of modes(k) exp(i k x). Only one of the
// conjugate pair k and -k is kept: the last index goes to size / 2.
class Modes : public Cube<std::complex<double>> {
 public:
  Modes() = default;
  explicit Modes(std::int64_t size) : Cube(size, size / 2 + 1) {}
};

using VectorField = std::array<Field, 3>;

// The periodic grid of a box's fields, with their transforms and loops.
class Mesh {
 public:
  // `length`: of the box, Mpc/h.
  Mesh(std::int64_t size, double length, int threads);

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::size_t cells() const {
    return static_cast<std::size_t>(size_ * size_ * size_);
  }
  [[nodiscard]] double length() const { return length_; }
  [[nodiscard]] double cell() const { return length_ / static_cast<double>(size_); }
  [[nodiscard]] int threads() const { return threads_; }

  // Any number of threads may transform at once.
  [[nodiscard]] Modes forward(const Field& field) const;
  void forward(const Field& field, Modes& modes) const;
  [[nodiscard]] Field inverse(Modes&& modes) const;
  // `modes` is used as scratch.
  void inverse(Modes& modes, Field& field) const;

  // The wave vector of one mode, h/Mpc. Odd derivatives leave out the Nyquist frequency, whose sign
  // is not known: `odd` is 0 there.
  struct Wave {
    std::array<double, 3> k, odd;
    double square;  // |k|^2
  };

  // Calls visit(index into Modes, Wave) for every mode, on this mesh's threads.
  template <typename Visit>
  void for_each_mode(Visit visit) const;

  // Calls visit(begin, end) for parts of [0, cells()), on this mesh's threads.
  void for_each_range(const std::function<void(std::size_t, std::size_t)>& visit) const;

 private:
  std::int64_t size_;
  double length_;
  int threads_;
  std::vector<double> wave_numbers_, odd_wave_numbers_;  // of each index along an axis
};

[[nodiscard]] Field divergence(const Mesh& mesh, const VectorField& vectors);

template <typename Visit>
void Mesh::for_each_mode(Visit visit) const {
  const auto size = static_cast<std::size_t>(size_), last = size / 2 + 1;
  for_each_index(size_, threads_, [&](std::int64_t plane) {
    const auto x = static_cast<std::size_t>(plane);
    for (std::size_t y = 0; y < size; ++y) {
      const double kx = wave_numbers_[x], ky = wave_numbers_[y];
      const double odd_x = odd_wave_numbers_[x], odd_y = odd_wave_numbers_[y];
      for (std::size_t z = 0; z < last; ++z) {
        const double kz = wave_numbers_[z];
        visit((x * size + y) * last + z, Wave{.k = {kx, ky, kz},
                                              .odd = {odd_x, odd_y, odd_wave_numbers_[z]},
                                              .square = kx * kx + ky * ky + kz * kz});
      }
    }
  });
}

}  // namespace kolo::cosmology
