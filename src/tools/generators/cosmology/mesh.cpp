#include "tools/generators/cosmology/mesh.h"

#include <numbers>
#include <utility>

#include <torch/types.h>

namespace kolo::cosmology {

namespace {

torch::Tensor view_of(std::span<const double> field, std::int64_t size) {
  return torch::from_blob(const_cast<double*>(field.data()), {size, size, size}, torch::kDouble);
}

torch::Tensor view_of(std::span<std::complex<double>> modes, std::int64_t size) {
  return torch::from_blob(modes.data(), {size, size, size / 2 + 1}, torch::kComplexDouble);
}

}  // namespace

Mesh::Mesh(std::int64_t size, double length, int threads)
    : size_(size), length_(length), threads_(threads) {
  for (std::int64_t i = 0; i < size; ++i) {
    const auto frequency = static_cast<double>(i <= size / 2 ? i : i - size);
    wave_numbers_.push_back(frequency * 2 * std::numbers::pi / length);
    odd_wave_numbers_.push_back(2 * i == size ? 0 : wave_numbers_.back());
  }
}

// The norm "forward" divides by the number of cells there, and by nothing in inverse().
void Mesh::forward(const Field& field, Modes& modes) const {
  auto result = view_of(modes.values(), size_);
  at::fft_rfftn_out(result, view_of(field.values(), size_), c10::nullopt, c10::nullopt, "forward");
}

void Mesh::inverse(Modes& modes, Field& field) const {
  auto result = view_of(field.values(), size_);
  at::fft_irfftn_out(result, view_of(modes.values(), size_), {{size_, size_, size_}}, c10::nullopt,
                     "forward");
}

Modes Mesh::forward(const Field& field) const {
  Modes modes(size_);
  forward(field, modes);
  return modes;
}

Field Mesh::inverse(Modes&& modes) const {
  Field field(size_);
  inverse(modes, field);
  return field;
}

void Mesh::for_each_range(const std::function<void(std::size_t, std::size_t)>& visit) const {
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
