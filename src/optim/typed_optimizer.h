#pragma once

#include <string_view>

#include "kolo/optim/flat_optimizer.h"

// What all optimizers have in common behind FlatOptimizer.
namespace kolo::optim {

// InputErrors that name the optimizer, the option, its value and what it accepts.
void require(bool accepted, std::string_view optimizer, std::string_view option, double value,
             std::string_view accepts);
void require_not_negative(std::string_view optimizer, std::string_view option, double value);
void require_positive(std::string_view optimizer, std::string_view option, double value);
void require_fraction(std::string_view optimizer, std::string_view option, double value);

// Weight decay as the constants of a pass. The options are checked by whoever takes them.
struct Decay {
  double amount = 0;
  bool is_decoupled = false;
  bool excludes_vectors = false;

  // Times the parameter, added to the gradient; 0 when decay is decoupled.
  [[nodiscard]] double in_gradient(bool is_vector) const {
    return is_decoupled || spares(is_vector) ? 0 : amount;
  }
  // Factor on the parameter; 1 unless decay is decoupled.
  [[nodiscard]] double kept(double rate, bool is_vector) const {
    return is_decoupled && !spares(is_vector) ? 1 - rate * amount : 1;
  }
  [[nodiscard]] bool spares_vectors() const { return excludes_vectors && amount > 0; }

 private:
  [[nodiscard]] bool spares(bool is_vector) const { return excludes_vectors && is_vector; }
};

template <typename Options>
Decay decay_of(const Options& options) {
  return {options.weight_decay, options.decoupled_decay, options.decay_excludes_vectors};
}

// Throws Error for a call that FlatOptimizer::update() doesn't take.
void check_update(const FlatOptimizer& optimizer, const FlatSlice<float>& slice,
                  double learning_rate, std::int64_t step);
void check_update(const FlatOptimizer& optimizer, const FlatSlice<double>& slice,
                  double learning_rate, std::int64_t step);

// Turns both types' updates, checked, into Algorithm::run<T>(slice, rate, step).
template <typename Algorithm>
class TypedOptimizer : public FlatOptimizer {
 public:
  void update(const FlatSlice<float>& slice, double learning_rate, std::int64_t step) const final {
    check_update(*this, slice, learning_rate, step);
    static_cast<const Algorithm&>(*this).run(slice, learning_rate, step);
  }
  void update(const FlatSlice<double>& slice, double learning_rate, std::int64_t step) const final {
    check_update(*this, slice, learning_rate, step);
    static_cast<const Algorithm&>(*this).run(slice, learning_rate, step);
  }
};

}  // namespace kolo::optim
