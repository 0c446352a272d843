#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kolo/base/checked.h"

// Fourier transforms of real cubes, by FFTW in double precision.
namespace kolo::cosmology {

struct FftwFree {
  void operator()(void* memory) const;
};

// Memory aligned as FFTW's vector code wants it; throws std::bad_alloc.
[[nodiscard]] void* allocate_for_fftw(std::size_t bytes);

// A three-dimensional array, the last index fastest; zeros at first.
template <typename Value>
class Cube {
 public:
  Cube() = default;
  // `size`: cells an edge of the field; `last`: how many there are along the last index.
  Cube(std::int64_t size, std::int64_t last)
      : size_(size),
        count_(narrow<std::size_t>(checked_multiply(checked_multiply(size, size), last))),
        memory_(static_cast<Value*>(allocate_for_fftw(checked_multiply(count_, sizeof(Value))))) {
    std::uninitialized_value_construct_n(memory_.get(), count_);
  }

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::span<Value> values() { return {memory_.get(), count_}; }
  [[nodiscard]] std::span<const Value> values() const { return {memory_.get(), count_}; }
  [[nodiscard]] Value& operator[](std::size_t index) { return memory_[index]; }
  [[nodiscard]] const Value& operator[](std::size_t index) const { return memory_[index]; }

 private:
  std::int64_t size_ = 0;
  std::size_t count_ = 0;
  std::unique_ptr<Value[], FftwFree> memory_;
};

// A real field on size^3 cells.
class Field : public Cube<double> {
 public:
  Field() = default;
  explicit Field(std::int64_t size) : Cube(size, size) {}
};

// Its Fourier amplitudes: field(x) = sum over k of modes(k) exp(i k x). Of k and -k, which are
// conjugate, one is kept: the last index goes to size / 2.
class Modes : public Cube<std::complex<double>> {
 public:
  Modes() = default;
  explicit Modes(std::int64_t size) : Cube(size, size / 2 + 1) {}
};

// Any number of threads may transform at once. Results depend on the input alone: FFTW plans
// without measuring.
class FourierTransform {
 public:
  explicit FourierTransform(std::int64_t size);
  FourierTransform(const FourierTransform&) = delete;
  FourierTransform& operator=(const FourierTransform&) = delete;
  ~FourierTransform();

  void forward(const Field& field, Modes& modes) const;
  // `modes` is used as scratch.
  void inverse(Modes& modes, Field& field) const;

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
  std::int64_t size_;
};

}  // namespace kolo::cosmology
