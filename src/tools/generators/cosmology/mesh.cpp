#include "tools/generators/cosmology/mesh.h"

#include <mutex>
#include <new>
#include <numbers>
#include <type_traits>
#include <utility>

#include <fftw3.h>
#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo::cosmology {

namespace {

// FFTW's planner, unlike its transforms, has state that all threads of the process share.
std::mutex& planner_mutex() {
  static std::mutex mutex;
  return mutex;
}

struct DestroyPlan {
  void operator()(fftw_plan plan) const {
    const std::lock_guard lock(planner_mutex());
    fftw_destroy_plan(plan);
  }
};

using Plan = std::unique_ptr<std::remove_pointer_t<fftw_plan>, DestroyPlan>;

fftw_complex* as_fftw(Modes& modes) {
  return reinterpret_cast<fftw_complex*>(modes.values().data());
}

}  // namespace

void FftwFree::operator()(void* memory) const {
  fftw_free(memory);
}

void* allocate_for_fftw(std::size_t bytes) {
  void* const memory = fftw_malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

struct Mesh::Plans {
  Plan forward, inverse;
};

Mesh::Mesh(std::int64_t size, double length, int threads)
    : size_(size), length_(length), threads_(threads), plans_(std::make_unique<Plans>()) {
  for (std::int64_t i = 0; i < size; ++i) {
    const auto frequency = static_cast<double>(i <= size / 2 ? i : i - size);
    wave_numbers_.push_back(frequency * 2 * std::numbers::pi / length);
    odd_wave_numbers_.push_back(2 * i == size ? 0 : wave_numbers_.back());
  }
  // Plans for one pair of arrays serve all others, because all are aligned alike.
  Field field(size);
  Modes modes(size);
  const auto n = narrow<int>(size);
  const std::lock_guard lock(planner_mutex());
  plans_->forward.reset(
      fftw_plan_dft_r2c_3d(n, n, n, field.values().data(), as_fftw(modes), FFTW_ESTIMATE));
  plans_->inverse.reset(
      fftw_plan_dft_c2r_3d(n, n, n, as_fftw(modes), field.values().data(), FFTW_ESTIMATE));
  if (!plans_->forward || !plans_->inverse)
    throw Error(fmt::format("data: FFTW has no plan for a transform of {0} x {0} x {0}", size));
}

Mesh::~Mesh() = default;

void Mesh::forward(const Field& field, Modes& modes) const {
  // FFTW takes no const, but leaves the input of this transform as it is.
  fftw_execute_dft_r2c(plans_->forward.get(), const_cast<double*>(field.values().data()),
                       as_fftw(modes));
  const double scale = 1 / static_cast<double>(field.values().size());
  for (auto& mode : modes.values()) mode *= scale;
}

void Mesh::inverse(Modes& modes, Field& field) const {
  fftw_execute_dft_c2r(plans_->inverse.get(), as_fftw(modes), field.values().data());
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
