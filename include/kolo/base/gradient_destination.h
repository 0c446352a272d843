#pragma once

#include <memory>

namespace kolo {

// Place where a parameter's gradient is wanted, by an all-reduce for example: a layer that computes
// it right there spares a copy. Hooks after the parameter's accumulation of gradients may be such
// destinations.
class GradientDestination {
 public:
  GradientDestination() = default;
  GradientDestination(const GradientDestination&) = delete;
  GradientDestination& operator=(const GradientDestination&) = delete;
  virtual ~GradientDestination() = default;

  // Memory laid out as the parameter's, to be overwritten with one function's gradient of it, which
  // backward then takes for the whole; null when it is not free. In backward only; any thread.
  [[nodiscard]] virtual std::shared_ptr<void> take() = 0;
};

}  // namespace kolo
