#include "data/generators/cosmology/mesh.h"

#include <numbers>
#include <utility>

namespace kolo::cosmology {

Mesh::Mesh(std::int64_t size, double length, int threads)
    : size_(size), length_(length), threads_(threads), transform_(size) {
  for (std::int64_t i = 0; i < size; ++i) {
    const auto frequency = static_cast<double>(i <= size / 2 ? i : i - size);
    wave_numbers_.push_back(frequency * 2 * std::numbers::pi / length);
    odd_wave_numbers_.push_back(2 * i == size ? 0 : wave_numbers_.back());
  }
}

Modes Mesh::forward(const Field& field) const {
  Modes modes(size_);
  transform_.forward(field, modes);
  return modes;
}

Field Mesh::inverse(Modes&& modes) const {
  Field field(size_);
  transform_.inverse(modes, field);
  return field;
}

void Mesh::for_each_part(const std::function<void(std::size_t, std::size_t)>& visit) const {
  const auto part = static_cast<std::size_t>(size_ * size_);
  for_each_index(size_, threads_, [&](std::int64_t plane) {
    const auto begin = static_cast<std::size_t>(plane) * part;
    visit(begin, begin + part);
  });
}

Field divergence(const Mesh& mesh, const VectorField& vectors) {
  Modes sum(mesh.size());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Modes modes = mesh.forward(vectors[axis]);
    mesh.for_each_mode([&](std::size_t i, const Mesh::Wave& wave) {
      sum[i] +=
          std::complex<double>(-wave.odd[axis] * modes[i].imag(), wave.odd[axis] * modes[i].real());
    });
  }
  return mesh.inverse(std::move(sum));
}

}  // namespace kolo::cosmology
