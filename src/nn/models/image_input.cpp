#include "nn/models/image_input.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

std::int64_t channels_of(const ModelOptions& options, std::string_view model,
                         std::int64_t minimum) {
  const auto& shape = options.input_shape;
  if (shape.size() != 3) {
    throw InputError(
        fmt::format("model {}: the input's shape is [{}], expected an image: channels, height, "
                    "width",
                    model, fmt::join(shape.begin(), shape.end(), ", ")));
  }
  if (std::min(shape[1], shape[2]) < minimum) {
    throw InputError(
        fmt::format("model {}: images of {}x{} pixels are too small, expected at "
                    "least {}x{}",
                    model, shape[1], shape[2], minimum, minimum));
  }
  return shape[0];
}

}  // namespace kolo
