#pragma once

#include <cstdint>

#include <torch/types.h>

namespace kolo {

// What a parameter's grad() is while its average is under way: infinity and 1, in a shape that fits
// no parameter, so that nobody steps with it. It tells what was done to it in the meantime, by its
// values: LibTorch clips gradients past their version counters.
class GradientPlaceholder {
 public:
  enum class Fate : std::uint8_t {
    untouched,
    zeroed,   // by zero_grad() of whatever kind; the gradient is not wanted any more
    changed,  // in another way: clipped, scaled, exchanged
  };

  explicit GradientPlaceholder(const torch::Tensor& parameter);

  // As good as new, to be made the parameter's grad().
  [[nodiscard]] const torch::Tensor& renewed();

  [[nodiscard]] bool is(const torch::Tensor& gradient) const;
  // `gradient`: what grad() is now.
  [[nodiscard]] Fate fate(const torch::Tensor& gradient) const;

 private:
  [[nodiscard]] bool is_as_new() const;

  torch::Tensor tensor_;
  torch::Tensor original_;
};

}  // namespace kolo
