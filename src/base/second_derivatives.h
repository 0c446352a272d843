#pragma once

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

// Refuses second derivatives in the backward of an autograd function that has none: LibTorch calls
// it with gradients enabled where create_graph is true. `what` names the function.
inline void refuse_second_derivatives(const char* what) {
  if (at::GradMode::is_enabled())
    throw Error(fmt::format("{} has no second derivatives; drop create_graph", what));
}

}  // namespace kolo
